/**
 * Reads the data of server-sent events out of text, however it is cut: lines that end in LF, CRLF or CR,
 * data of several lines, comments and other fields passed over. Of our own, since it runs once a token and the
 * package that does the same keeps everything else of an event as well.
 */
export class EventReader {
  #held = "";
  #data: string | undefined;
  #isFirst = true;

  /** The data of the events that `text` completes. */
  feed(text: string): string[] {
    const events: string[] = [];
    let rest = this.#held === "" ? text : this.#held + text;
    if (this.#isFirst && rest !== "") {
      this.#isFirst = false;
      if (rest.charCodeAt(0) === 0xfeff) rest = rest.slice(1);
    }
    // A CR at the end may be half of a line's end.
    const cut = rest.endsWith("\r") ? 1 : 0;
    if (rest.includes("\r")) rest = rest.slice(0, rest.length - cut).replace(/\r\n?/g, "\n");
    let from = 0;
    for (let end = rest.indexOf("\n"); end !== -1; end = rest.indexOf("\n", from)) {
      if (end === from) this.#dispatch(events);
      else if (rest.startsWith("data", from)) this.#line(rest.slice(from, end));
      from = end + 1;
    }
    this.#held = rest.slice(from) + (cut === 1 ? "\r" : "");
    return events;
  }

  /** The last event may lack its empty line. */
  end(): string[] {
    return this.feed("\n\n");
  }

  #line(line: string): void {
    let value = "";
    if (line.charCodeAt(4) === 58) value = line.slice(line.charCodeAt(5) === 32 ? 6 : 5);
    else if (line.length > 4) return; // another field that begins alike
    this.#data = this.#data === undefined ? value : `${this.#data}\n${value}`;
  }

  #dispatch(events: string[]): void {
    if (this.#data !== undefined) events.push(this.#data);
    this.#data = undefined;
  }
}
