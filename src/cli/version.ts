import { COMMIT, VERSION } from "../version.ts";
import type { Call } from "./command.ts";
import { putJson } from "./output.ts";

export async function showVersion({ program, output, flags }: Call): Promise<void> {
  if (!flags["json"]) return output.data(`errand ${VERSION} (${COMMIT})\n`);
  const folder = await program.folder();
  const { version } = folder.engine();
  putJson(output, {
    version: VERSION,
    commit: COMMIT,
    bun: Bun.version,
    sqlite: version,
    schema: folder.latestSchema(),
    platform: `${process.platform}-${process.arch}`,
  });
}
