/** The look of the form pages: one column, the system's own typeface, light or dark as the reader has it. */
export const STYLE = `
:root { color-scheme: light dark; --ink: #1c1e21; --soft: #5b6470; --line: #c9ced6; --paper: #fff;
  --ground: #f4f5f7; --accent: #1f5fd0; --on: #fff; --wrong: #b3261e; --good: #1a7f37; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e8eaed; --soft: #a3abb6; --line: #454b54; --paper: #1d2025; --ground: #131518;
    --accent: #8ab4f8; --on: #10131a; --wrong: #f2a19b; --good: #7dd596; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 40rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 0 0 .25rem; }
p { margin: 0 0 1rem; white-space: pre-line; overflow-wrap: anywhere; }
form, .card { background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.5rem; margin-top: 1.5rem; }
.field { margin-bottom: 1.25rem; }
label, dt { display: block; font-weight: 600; overflow-wrap: anywhere; }
.check label { display: inline; margin-left: .5rem; }
.hint, .required { color: var(--soft); font-weight: 400; font-size: .9rem; margin: 0 0 .35rem; }
input, textarea, select { width: 100%; font: inherit; color: inherit; background: var(--ground);
  border: 1px solid var(--line); border-radius: .4rem; padding: .5rem .6rem; }
input[type=checkbox] { width: 1.1rem; height: 1.1rem; accent-color: var(--accent); vertical-align: -.15rem; }
textarea.json, pre { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .9rem; }
[aria-invalid] { border-color: var(--wrong); border-width: 2px; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.fault { color: var(--wrong); margin: .35rem 0 0; }
.faults { border-color: var(--wrong); }
.faults a { color: var(--wrong); }
button { font: inherit; font-weight: 600; color: var(--on); background: var(--accent); border: 0;
  border-radius: .4rem; padding: .6rem 1.4rem; cursor: pointer; }
a { color: var(--accent); }
dd { margin: 0 0 1rem; white-space: pre-wrap; overflow-wrap: anywhere; }
pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.success { color: var(--good); }
.failed { color: var(--wrong); }
footer { color: var(--soft); font-size: .85rem; margin-top: 1.5rem; overflow-wrap: anywhere; }
`;
