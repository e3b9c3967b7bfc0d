import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  configPath,
  loadConfig,
  localUrl,
  refuseUnfit,
  type SettingName,
  settings,
  shown,
} from "../src/config.ts";
import { SettingError } from "../src/lib/settings.ts";
import { discardAfterEach, scratchFolder } from "./helpers/folder.ts";

discardAfterEach();

/** Loads with a configuration file of this content in the data folder. */
function load(setup: { flags?: Record<string, string>; env?: Record<string, string>; toml?: string } = {}) {
  const data = scratchFolder();
  if (setup.toml !== undefined) writeFileSync(join(data, "errand.toml"), setup.toml);
  return { data, ...loadConfig({ data, ...setup.flags }, setup.env ?? {}) };
}

function refusal(run: () => unknown): SettingError {
  try {
    run();
  } catch (error) {
    if (error instanceof SettingError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

describe("precedence", () => {
  test("a flag goes before the environment, that before the file, that before the default", () => {
    const toml = "port = 7001\nhost = '127.0.0.2'\nlog_level = 'warn'";
    const { config, origins, data } = load({
      flags: { port: "7003" },
      env: { ERRAND_PORT: "7002", ERRAND_HOST: "127.0.0.3" },
      toml,
    });
    expect([config.port, config.host, config.log_level, config.drain_seconds]).toEqual([
      7003,
      "127.0.0.3",
      "warn",
      25,
    ]);
    expect(origins.port).toEqual({ from: "flag", name: "--port" });
    expect(origins.host).toEqual({ from: "environment", name: "ERRAND_HOST" });
    expect(origins.log_level).toEqual({ from: "file", name: join(data, "errand.toml") });
    expect(origins.drain_seconds.from).toBe("default");
  });

  test("an empty variable is no setting", () => {
    expect(load({ env: { ERRAND_PORT: "" } }).config.port).toBe(7070);
  });

  test.each([
    ["myhost", "http://myhost:11434"],
    ["myhost:9000", "http://myhost:9000"],
    [":9000", "http://127.0.0.1:9000"],
    ["0.0.0.0", "http://127.0.0.1:11434"],
    ["http://myhost", "http://myhost:11434"],
    ["http://myhost:80/", "http://myhost"],
    ["https://myhost", "https://myhost"],
  ])("OLLAMA_HOST %s is %s", (given, meant) => {
    expect(load({ env: { OLLAMA_HOST: given } }).config.ollama_host).toBe(meant);
  });

  test("an address is shown without the password in it", () => {
    expect(shown("openai_base_url", "http://me:hunter2@models.internal/v1")).toBe(
      "http://***@models.internal/v1",
    );
  });

  test("providers are known by their own variables", () => {
    const { config } = load({ env: { OPENAI_API_KEY: "sk-1", OLLAMA_HOST: "127.0.0.1:11434" } });
    expect(config.openai_api_key).toBe("sk-1");
    expect(config.ollama_host).toBe("http://127.0.0.1:11434");
  });
});

describe("modes", () => {
  test("development limits requests, reaches loopback, logs readably and shows a key", () => {
    const { config } = load({ env: { ERRAND_DEPLOYMENT: "development" } });
    expect(config).toMatchObject({
      rate_limit: 100,
      allow_targets: ["loopback"],
      log_format: "pretty",
      first_key: "always",
    });
  });

  test("what is said goes before what the mode would say", () => {
    const env = { ERRAND_DEPLOYMENT: "development", ERRAND_RATE_LIMIT: "0" };
    expect(load({ env }).config.rate_limit).toBe(0);
  });

  test("time runs faster in development alone", () => {
    expect(load().config.time_scale).toBe(1);
    const fast = { ERRAND_TIME_SCALE: "60" };
    refuseUnfit(load({ env: { ...fast, ERRAND_DEPLOYMENT: "development" } }));
    const { message, hint } = refusal(() => refuseUnfit(load({ env: fast })));
    expect([message, hint]).toEqual([
      "ERRAND_TIME_SCALE: time runs faster in development mode alone",
      "start it with: errand dev",
    ]);
  });

  test("self-hosted has no limit and reaches no private address", () => {
    expect(load().config).toMatchObject({
      rate_limit: 0,
      allow_targets: [],
      log_format: "auto",
      first_key: "auto",
    });
  });
});

describe("the public address", () => {
  test("follows host and port unless it is given", () => {
    expect(load({ flags: { port: "8080" } }).config.public_url).toBe("http://127.0.0.1:8080");
    expect(load({ flags: { "public-url": "https://errand.example/" } }).config.public_url).toBe(
      "https://errand.example",
    );
  });

  test.each([
    ["0.0.0.0", "http://localhost:1"],
    ["::", "http://localhost:1"],
    ["::1", "http://[::1]:1"],
    ["errand.local", "http://errand.local:1"],
  ])("listening on %s is reached at %s", (host, url) => {
    expect(localUrl(host, 1)).toBe(url);
  });
});

describe("the file", () => {
  test("a named one that is missing is refused, the default one need not exist", () => {
    expect(refusal(() => load({ flags: { config: "/nowhere/errand.toml" } })).message).toContain(
      "no such file",
    );
    expect(load().config.config_file).toBeUndefined();
  });

  test("a named one may say where the data lies, the one inside it may not", () => {
    const folder = scratchFolder();
    const file = join(folder, "my.toml");
    writeFileSync(file, `data = '${folder}/there'`);
    expect(loadConfig({ config: file }, {}).config.data).toBe(join(folder, "there"));
    expect(refusal(() => load({ toml: "data = '/elsewhere'" })).message).toContain("cannot move it");
  });

  test("an unknown name is refused with the nearest one", () => {
    const { message, hint } = refusal(() => load({ toml: "prot = 1" }));
    expect(message).toContain("prot in ");
    expect(hint).toBe("did you mean port?");
  });

  test("a fault in its form is told with line and column", () => {
    expect(refusal(() => load({ toml: "port = 1\nhost = " })).message).toMatch(
      /errand\.toml, line 2, column \d+: \S/,
    );
  });

  test("a value of another type is refused", () => {
    const { message } = refusal(() => load({ toml: "port = '7070'" }));
    expect(message).toContain('expected a whole number from 0 to 65535, received "7070"');
  });

  test("lists are arrays there and texts with commas elsewhere", () => {
    expect(load({ toml: "trusted_proxies = ['10.0.0.0/8', '::1']" }).config.trusted_proxies).toEqual([
      "10.0.0.0/8",
      "::1",
    ]);
    const env = { ERRAND_TRUSTED_PROXIES: "10.0.0.0/8, ::1" };
    expect(load({ env }).config.trusted_proxies).toEqual(["10.0.0.0/8", "::1"]);
  });

  test("the path follows --config, ERRAND_CONFIG, then the data folder", () => {
    expect(configPath({ config: "/a.toml" }, { ERRAND_CONFIG: "/b.toml" }).file).toBe("/a.toml");
    expect(configPath({}, { ERRAND_CONFIG: "/b.toml" })).toEqual({ file: "/b.toml", named: true });
    expect(configPath({ data: "/d" }, {})).toEqual({ file: "/d/errand.toml", named: false });
  });
});

describe("refusals", () => {
  test("an unknown ERRAND_ variable is refused with the nearest one", () => {
    const { message, hint } = refusal(() => load({ env: { ERRAND_PROT: "1" } }));
    expect([message, hint]).toEqual(["ERRAND_PROT: no such setting", "did you mean ERRAND_PORT?"]);
  });

  test.each([
    ["ERRAND_PORT", "70a"],
    ["ERRAND_PORT", "-1"],
    ["ERRAND_PORT", "65536"],
    ["ERRAND_PUBLIC_URL", "errand.example"],
    ["ERRAND_PUBLIC_URL", "ftp://errand.example"],
    ["ERRAND_DEPLOYMENT", "production"],
    ["ERRAND_ACCESS_LOG", "perhaps"],
    ["ERRAND_TRUSTED_PROXIES", "10.0.0.0/33"],
    ["ERRAND_ALLOW_TARGETS", "http://10.0.0.1"],
    ["ERRAND_EGRESS_IPS", "example.com"],
    ["ERRAND_DEFAULT_MODEL", "gpt"],
    ["ERRAND_MAX_BODY_BYTES", "1e6"],
  ])("%s=%s names the variable and what was expected", (name, value) => {
    const { message } = refusal(() => load({ env: { [name]: value } }));
    expect(message).toStartWith(`${name}: expected `);
    expect(message).toContain(JSON.stringify(value));
  });

  test.each(["ERRAND_SECRET_KEY", "ERRAND_SMTP_URL"])("a bad %s is not repeated", (name) => {
    expect(refusal(() => load({ env: { [name]: "hunter2" } })).message).not.toContain("hunter2");
  });
});

test("secrets have no flag and are shown only as being there", () => {
  for (const [name, one] of Object.entries(settings)) {
    if (one.secret) expect(one.flag).toBeUndefined();
    if (one.secret) expect(shown(name as SettingName, "hunter2")).not.toContain("hunter2");
  }
});

test("every setting has a help sentence and names of its own", () => {
  const all = Object.values(settings);
  for (const one of all) expect(one.help).toEndWith(".");
  expect(new Set(all.map((one) => one.env)).size).toBe(all.length);
});
