import Type from "typebox";
import { defineAuthentication } from "./type.ts";

export const none = defineAuthentication({
  type: "none",
  description: "Whoever knows the address.",
  fields: Type.Object({}),
  refusal: () => undefined,
  credentials: () => [],
});
