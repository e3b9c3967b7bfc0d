import { type Call, scopeOf, text, withServices } from "./command.ts";
import { usageError } from "./exit.ts";
import { putList, putRecord } from "./output.ts";

const ONCE = "This is the only time the key is shown.\n";

export const createKey = (call: Call) =>
  withServices(
    call,
    async (services) => {
      const scope = await scopeOf(call, services);
      const name = text(call.flags, "name") ?? "command line";
      const key = await services.keys.admin.create({
        name,
        ...scope,
        expires_at: text(call.flags, "expires"),
      });
      putRecord(call, key);
      call.output.words(ONCE);
    },
    { creates: true },
  );

export const listKeys = (call: Call) =>
  withServices(call, async (services) => {
    const named = text(call.flags, "workspace") ?? text(call.flags, "project");
    const keys = await services.keys.admin.list(named === undefined ? {} : await scopeOf(call, services));
    putList(
      call,
      keys,
      [
        { title: "ID", value: (key) => key.id },
        { title: "NAME", value: (key) => key.name },
        { title: "KEY", value: (key) => `${key.prefix}…${key.last_four}` },
        { title: "STATUS", value: (key) => key.status },
        { title: "PROJECT", value: (key) => key.project_id },
        { title: "CREATED", value: (key) => key.created_at },
        { title: "LAST USED", value: (key) => key.last_used_at },
      ],
      "no keys yet; make one: errand keys create",
    );
  });

export const showKey = (call: Call) =>
  withServices(call, async ({ keys }) => putRecord(call, await keys.admin.get(call.args[0]!)));

export const revokeKey = (call: Call) =>
  withServices(call, async ({ keys }) => {
    await keys.admin.revoke(call.args[0]!);
    call.output.words(`revoked ${call.args[0]}; it opens nothing any more\n`);
  });

export const rotateKey = (call: Call) =>
  withServices(call, async ({ keys }) => {
    const overlap = text(call.flags, "overlapSeconds");
    if (overlap !== undefined && !/^\d{1,7}$/.test(overlap)) {
      throw usageError("--overlap-seconds: expected a whole number of seconds");
    }
    const key = await keys.admin.rotate(
      call.args[0]!,
      overlap === undefined ? {} : { overlap_seconds: Number(overlap) },
    );
    putRecord(call, key);
    call.output.words(ONCE);
  });
