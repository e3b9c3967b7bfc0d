import { createApp, openLocal } from "../../src/app.ts";
import type { Program } from "../../src/cli/command.ts";
import type { Output } from "../../src/cli/output.ts";
import { runCommand } from "../../src/cli/program.ts";
import { explain } from "../../src/failures.ts";
import { sqliteFolder } from "../../src/storage/sqlite/folder.ts";
import { scratchFolder } from "../helpers/folder.ts";

export type Ran = { code: number; stdout: string; stderr: string };

/** The command line of this process on a folder of its own: what it prints and how it would exit. */
export function commandLine(env: Record<string, string> = {}) {
  const data = scratchFolder();
  const program: Program = {
    createApp: async (config, options) => createApp(config, options),
    openLocal,
    folder: async () => sqliteFolder,
    env: { ERRAND_DATA: data, ...env },
  };

  async function run(...argv: string[]): Promise<Ran> {
    const ran: Ran = { code: 0, stdout: "", stderr: "" };
    const output: Output = {
      data(text) {
        ran.stdout += text;
      },
      words(text) {
        ran.stderr += text;
      },
      attended: false,
    };
    try {
      ran.code = await runCommand(argv, program, output);
    } catch (error) {
      const { code, message, hint } = explain(error);
      ran.stderr += `error: ${message}\n${hint ? `hint: ${hint}\n` : ""}`;
      ran.code = code;
    }
    return ran;
  }

  /** A command that must succeed, its data read as JSON. */
  async function json<T = Record<string, unknown>>(...argv: string[]): Promise<T> {
    const { code, stdout, stderr } = await run(...argv, "--json");
    if (code !== 0) throw new Error(`errand ${argv.join(" ")}: exit ${code}\n${stderr}`);
    return JSON.parse(stdout) as T;
  }

  return { data, run, json };
}
