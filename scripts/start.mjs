// npm start: installs, builds what is not built yet, and runs the server with what follows `--` as its options.
import { become, binary, build, findBun, install } from "./lib/toolchain.mjs";

install();
build(findBun());
become(binary, ["serve", "--first-key", "always", ...process.argv.slice(2)]);
