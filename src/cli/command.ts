import { mkdirSync } from "node:fs";
import type { Command } from "commander";
import type { App, AppOptions, LocalOptions } from "../app.ts";
import { type Config, type LoadedConfig, loadConfig, settings } from "../config.ts";
import type { Caller } from "../keys/schema.ts";
import { type Clock, scaledClock, systemClock } from "../lib/clock.ts";
import { AppError } from "../lib/errors.ts";
import type { Services } from "../services.ts";
import type { DataFolder } from "../storage/folder.ts";
import { VERSION } from "../version.ts";
import { EXIT, ExitError } from "./exit.ts";
import type { Output } from "./output.ts";

/** The parts of the program that commands work with; loaded when a command asks, so that small ones start at once. */
export type Program = {
  createApp(config: Config, options?: AppOptions): Promise<App>;
  openLocal(config: Config, options?: LocalOptions): Promise<{ services: Services; close(): Promise<void> }>;
  folder(): Promise<DataFolder>;
  env: Record<string, string | undefined>;
};

/** Options as typed, by their name in camel case. */
export type Flags = Record<string, string | boolean | string[] | undefined>;

/** One call of one command. */
export type Call = {
  program: Program;
  output: Output;
  /** The whole tree of commands. */
  root: Command;
  args: string[];
  flags: Flags;
};

const camel = (flag: string) => flag.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());

/** The configuration that this call asks for; `fixed` is what the command itself decides. */
export function configOf({ program, flags }: Call, fixed: Record<string, string> = {}): LoadedConfig {
  const given: Record<string, string | undefined> = { config: text(flags, "config"), ...fixed };
  for (const { flag } of Object.values(settings)) {
    if (flag !== undefined) given[flag] ??= text(flags, camel(flag));
  }
  return loadConfig(given, program.env);
}

export const text = (flags: Flags, name: string): string | undefined =>
  typeof flags[name] === "string" ? flags[name] : undefined;

/**
 * Runs `work` with the services on the data folder, beside a running server or alone. A folder without a
 * database is made only where `creates` says so: a mistyped --data should not become a new installation.
 */
export async function withServices<T>(
  call: Call,
  work: (services: Services) => Promise<T>,
  { creates = false }: { creates?: boolean } = {},
): Promise<T> {
  const { config, clock } = await localConfig(call, creates);
  const local = await call.program.openLocal(config, { clock });
  try {
    return await work(local.services);
  } finally {
    await local.close();
  }
}

type Local = {
  config: Config;
  isServed: boolean;
  /** The server's, where its time runs fast: what is put down beside it is by the same time. */
  clock: Clock | undefined;
};

/** The configuration for working on the data folder, and who serves it. Throws where that cannot go well. */
async function localConfig(call: Call, creates: boolean): Promise<Local> {
  const { config, origins } = configOf(call);
  const folder = await call.program.folder();
  const schema = folder.schema(config.data);
  if (schema === undefined && !creates) throw noDatabase(config.data);
  const holder = folder.holder(config.data);
  if (holder && schema !== undefined && schema < folder.latestSchema()) {
    // Changing the tables under a running server of an older version would break it.
    const message = `the server on ${config.data} is of an older version (schema ${schema}, this errand has ${folder.latestSchema()})`;
    throw new ExitError(EXIT.newer, message, "stop it and start this version, or use the version that runs");
  }
  if (holder?.url && origins.public_url.from === "default") config.public_url = holder.url;
  const clock = holder?.pace ? scaledClock(holder.pace.scale, systemClock, holder.pace.from) : undefined;
  return { config, isServed: holder !== undefined, clock };
}

// As long as a server waits for what is under way.
const PATIENCE_MS = 25_000;

/**
 * The same for what runs: beside a server, that takes it up; alone, this process holds the folder and runs
 * it, and what it leaves unfinished goes on at the next start of a server.
 */
export async function withRunner<T>(
  call: Call,
  work: (services: Services, isServed: boolean) => Promise<T>,
): Promise<T> {
  const { config, isServed } = await localConfig(call, true);
  if (isServed) return withServices(call, (services) => work(services, true));
  mkdirSync(config.data, { recursive: true, mode: 0o700 });
  const lock = (await call.program.folder()).lock(config.data, { version: VERSION });
  try {
    const { services, close } = await call.program.openLocal(config, { runsJobs: true });
    try {
      return await work(services, false);
    } finally {
      await services.runner.stop(PATIENCE_MS);
      await close();
    }
  } finally {
    lock.release();
  }
}

export const noDatabase = (data: string) =>
  new ExitError(
    EXIT.refused,
    `${data} holds no database`,
    "name the folder with --data, or start it once: errand serve",
  );

/** The workspace and project that --workspace and --project name, by id or name; else the first of each. */
export async function scopeOf(
  { flags }: Call,
  { workspaces }: Services,
): Promise<{ workspace_id: string; project_id: string }> {
  const named = { workspace: text(flags, "workspace"), project: text(flags, "project") };
  if (named.workspace === undefined && named.project === undefined) return workspaces.ensureDefault();
  const workspace =
    named.workspace === undefined ? undefined : only("workspace", named.workspace, await workspaces.list());
  const projects = await workspaces.projects(workspace?.id);
  const project = named.project === undefined ? projects[0] : only("project", named.project, projects);
  if (!project) throw new ExitError(EXIT.refused, `the workspace ${workspace?.name} has no project`);
  return { workspace_id: project.workspace_id, project_id: project.id };
}

function only<T extends { id: string; name: string }>(what: string, named: string, all: T[]): T {
  const found = all.filter((one) => one.id === named || one.name === named);
  if (found.length === 1) return found[0]!;
  const hint = `see errand workspaces ${what === "project" ? "projects list" : "list"}`;
  if (found.length > 1)
    throw new ExitError(EXIT.refused, `${found.length} ${what}s are named ${named}`, `give its id; ${hint}`);
  throw new ExitError(EXIT.refused, `no ${what} ${named}`, hint);
}

/** Who holds the data folder may do what a key of a project may. */
const callerFor = (scope: { workspace_id: string; project_id: string }): Caller => ({
  key_id: "command line",
  ...scope,
});

/** Acts for the project that is named, else for the first one. */
export const callerOf = async (call: Call, services: Services): Promise<Caller> =>
  callerFor(await scopeOf(call, services));

/** For a list: the projects to show, all of them unless one is named. */
export async function callersOf(call: Call, services: Services): Promise<Caller[]> {
  if (text(call.flags, "workspace") ?? text(call.flags, "project")) return [await callerOf(call, services)];
  const projects = await services.workspaces.projects();
  return projects.map(({ id, workspace_id }) => callerFor({ workspace_id, project_id: id }));
}

/** Acts on a record wherever it is: the project that reaches it is the one to act for. */
export async function reaching<T>(
  call: Call,
  services: Services,
  act: (caller: Caller) => Promise<T>,
): Promise<T> {
  let refusal: unknown = new ExitError(EXIT.refused, "there is no project yet");
  for (const caller of await callersOf(call, services)) {
    try {
      return await act(caller);
    } catch (error) {
      if (!(error instanceof AppError && error.code === "forbidden")) throw error;
      refusal = error;
    }
  }
  throw refusal;
}
