import { jobWrites } from "./jobs.ts";
/** Every write there is, by name: what the writer can be asked to do. One line per feature. */
export const operations = {
  ...jobWrites,};
