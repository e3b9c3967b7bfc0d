import { configPath, type SettingName, settings, shown } from "../config.ts";
import { type Call, configOf, text } from "./command.ts";
import { putJson, putList } from "./output.ts";

/** Every option with its value in force; where it came from with --origin. Secrets are told as being there. */
export async function showConfig(call: Call): Promise<void> {
  const { config, origins } = configOf(call);
  const rows = (Object.keys(settings) as SettingName[]).map((name) => {
    const { from, name: place } = origins[name];
    const origin = from === "default" ? "default" : from === "flag" ? place : `${from} ${place}`;
    return { name, value: config[name], text: shown(name, config[name]), origin };
  });
  if (call.flags["json"]) {
    const plain = rows.map(({ name, value, text, origin }) => {
      // Secrets, and addresses with a password in them.
      const hidden =
        value !== undefined && (settings[name].secret || (typeof value === "string" && text !== value));
      return { name, value: hidden ? text : (value ?? null), origin };
    });
    return putJson(call.output, plain);
  }
  const columns = [
    { title: "SETTING", value: (row: (typeof rows)[number]) => row.name },
    { title: "VALUE", value: (row: (typeof rows)[number]) => row.text || "-" },
    { title: "ORIGIN", value: (row: (typeof rows)[number]) => row.origin },
  ];
  putList(call, rows, call.flags["origin"] ? columns : columns.slice(0, 2), "");
}

/** The file that is read, existing or not. */
export async function showConfigPath({ program, output, flags }: Call): Promise<void> {
  const { file } = configPath({ config: text(flags, "config"), data: text(flags, "data") }, program.env);
  output.data(`${file}\n`);
}
