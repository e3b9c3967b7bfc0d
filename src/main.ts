// First of all: what this process creates is its owner's alone, and certificates count.
process.umask(0o077);
delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"];

const { runCommand } = await import("./cli/program.ts");
const { processOutput } = await import("./cli/output.ts");

const output = processOutput();
const program = {
  createApp: async (...args: Parameters<typeof import("./app.ts").createApp>) =>
    (await import("./app.ts")).createApp(...args),
  openLocal: async (...args: Parameters<typeof import("./app.ts").openLocal>) =>
    (await import("./app.ts")).openLocal(...args),
  folder: async () => (await import("./storage/sqlite/folder.ts")).sqliteFolder,
  env: process.env,
};

try {
  process.exit(await runCommand(process.argv.slice(2), program, output));
} catch (error) {
  const { explain } = await import("./failures.ts");
  const { code, message, hint } = explain(error);
  output.words(`error: ${message}\n`);
  if (hint) output.words(`hint: ${hint}\n`);
  process.exit(code);
}

export {};
