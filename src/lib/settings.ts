import { nearest } from "./nearest.ts";

/** A form that values take: in words for messages, read from text (flag, environment) or from the file. */
export type Kind<T> = {
  expects: string;
  fromText(text: string): T | undefined;
  fromFile(value: unknown): T | undefined;
};

/**
 * One option of the program. `fallback` sees the options that stand before it in the table, so that one
 * may follow from another. A secret has no flag: command lines are readable by every user of a machine.
 */
export type Setting<T> = {
  kind: Kind<T>;
  env: string;
  flag?: string;
  help: string;
  secret?: boolean;
  fallback(given: Readonly<Record<string, unknown>>): T;
  /** The default in words, where it is no fixed value. */
  usually?: string;
};

// biome-ignore lint/suspicious/noExplicitAny: a table holds settings of every type
export type Settings = Record<string, Setting<any>>;
export type Values<S extends Settings> = { [K in keyof S]: S[K] extends Setting<infer T> ? T : never };
export type Origin = { from: "flag" | "environment" | "file" | "default"; name: string };

/** A value that cannot be used, told so that the place to mend it is plain. Values of secrets are never repeated. */
export class SettingError extends Error {
  constructor(
    message: string,
    readonly hint?: string,
  ) {
    super(message);
    this.name = "SettingError";
  }
}

export type Sources = {
  /** By flag name without dashes, as typed. */
  flags: Record<string, string | undefined>;
  env: Record<string, string | undefined>;
  file?: { path: string; values: Record<string, unknown> };
};

/** Flag before environment before file before default; throws SettingError at the first unusable value. */
export function settle<S extends Settings>(
  table: S,
  { flags, env, file }: Sources,
): { values: Values<S>; origins: Record<keyof S & string, Origin> } {
  const values: Record<string, unknown> = {};
  const origins: Record<string, Origin> = {};
  for (const [name, setting] of Object.entries(table)) {
    const typed = setting.flag === undefined ? undefined : flags[setting.flag];
    const exported = env[setting.env];
    if (typed !== undefined) {
      const origin: Origin = { from: "flag", name: `--${setting.flag}` };
      values[name] = usable(setting, origin.name, typed, setting.kind.fromText(typed.trim()));
      origins[name] = origin;
    } else if (exported !== undefined && exported.trim() !== "") {
      values[name] = usable(setting, setting.env, exported, setting.kind.fromText(exported.trim()));
      origins[name] = { from: "environment", name: setting.env };
    } else if (file && Object.hasOwn(file.values, name)) {
      const given = file.values[name];
      values[name] = usable(setting, `${name} in ${file.path}`, given, setting.kind.fromFile(given));
      origins[name] = { from: "file", name: file.path };
    } else {
      values[name] = setting.fallback(values);
      origins[name] = { from: "default", name: "" };
    }
  }
  return { values: values as Values<S>, origins: origins as Record<keyof S & string, Origin> };
}

function usable<T>(setting: Setting<T>, where: string, given: unknown, value: T | undefined): T {
  if (value !== undefined) return value;
  const received = setting.secret
    ? ""
    : `, received ${clip(typeof given === "string" ? given : JSON.stringify(given))}`;
  throw new SettingError(`${where}: expected ${setting.kind.expects}${received}`);
}

const clip = (text: string | undefined) => {
  const shown = JSON.stringify(text ?? "nothing");
  return shown.length > 80 ? `${shown.slice(0, 79)}…` : shown;
};

/** Refuses names that no option has: a typing error must not pass as a setting. */
export function refuseUnknown(
  names: Iterable<string>,
  known: string[],
  where: (name: string) => string,
): void {
  for (const name of names) {
    if (known.includes(name)) continue;
    const close = nearest(name, known);
    throw new SettingError(`${where(name)}: no such setting`, close ? `did you mean ${close}?` : undefined);
  }
}

const ofText = <T>(expects: string, read: (text: string) => T | undefined): Kind<T> => ({
  expects,
  fromText: read,
  fromFile: (value) => (typeof value === "string" ? read(value) : undefined),
});

/** Any text that `fits`. */
export const text = (
  expects = "text",
  fits: (value: string) => boolean = (value) => value !== "",
): Kind<string> => ofText(expects, (value) => (fits(value) ? value : undefined));

/** Text that is put into one form, such as an address without its trailing slash. */
export const formed = (expects: string, form: (value: string) => string | undefined): Kind<string> =>
  ofText(expects, form);

export const choice = <const T extends string>(...values: T[]): Kind<T> =>
  ofText(`one of ${values.join(", ")}`, (value) => values.find((one) => one === value));

export function integer(least: number, most: number, unit = ""): Kind<number> {
  const within = (value: number) => Number.isSafeInteger(value) && value >= least && value <= most;
  return {
    expects: `a whole number${unit && ` of ${unit}`} from ${least} to ${most}`,
    fromText: (value) => (/^\d{1,15}$/.test(value) && within(Number(value)) ? Number(value) : undefined),
    fromFile: (value) => (typeof value === "number" && within(value) ? value : undefined),
  };
}

const TRUTH = new Map([
  ["true", true],
  ["yes", true],
  ["on", true],
  ["1", true],
  ["false", false],
  ["no", false],
  ["off", false],
  ["0", false],
]);

export const boolean: Kind<boolean> = {
  expects: "true or false",
  fromText: (value) => TRUTH.get(value.toLowerCase()),
  fromFile: (value) => (typeof value === "boolean" ? value : undefined),
};

/** Separated by commas in text, an array in the file. */
export function list(expects: string, fits: (entry: string) => boolean): Kind<string[]> {
  const whole = (entries: string[]) => (entries.every(fits) ? entries : undefined);
  return {
    expects: `a list of ${expects}, separated by commas`,
    fromText: (value) =>
      whole(
        value
          .split(",")
          .map((entry) => entry.trim())
          .filter((entry) => entry !== ""),
      ),
    fromFile: (value) =>
      Array.isArray(value) && value.every((entry) => typeof entry === "string") ? whole(value) : undefined,
  };
}
