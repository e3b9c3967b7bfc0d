import { type ModelRequest, type Provider, wordsIn } from "./model.ts";

const NAME = "errand";

/**
 * The model that is always there: no network, no weights, the same answer to the same words. It says what
 * it is and what it heard, so that a fresh installation shows its whole loop, and how to add a model.
 */
export const offline: Provider = {
  name: "offline",
  configured: true,
  usual_model: NAME,
  async *stream(request) {
    const answer = answerTo(request);
    for (const word of answer.match(/\S+\s*/g) ?? []) {
      if (request.signal.aborted) return;
      yield { type: "text", text: word };
    }
    const prompt = request.messages.map(wordsIn).join(" ");
    yield {
      type: "finish",
      reason: "stop",
      usage: { prompt_tokens: words(prompt), completion_tokens: words(answer) },
    };
  },
};

const words = (text: string): number => text.split(/\s+/).filter((word) => word !== "").length;

const LONGEST_QUOTE = 200;

function answerTo({ messages }: ModelRequest): string {
  const last = messages.findLast((message) => message.role === "user");
  const asked = last ? wordsIn(last).trim() : "";
  const turns = messages.filter((message) => message.role === "user").length;
  const quote = asked.length > LONGEST_QUOTE ? `${asked.slice(0, LONGEST_QUOTE)}...` : asked;
  const heard = quote === "" ? "I received an empty message." : `You said: "${quote}"`;
  const place = turns > 1 ? ` This is message ${turns} of our conversation, and I keep all of it.` : "";
  return (
    `${heard}${place} I am Errand's offline model: I run inside this program, need no network and do not think. ` +
    "Everything around me is real: this conversation is stored, streamed and told to webhooks. " +
    "For real answers set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that speaks OpenAI's protocol, " +
    "or OLLAMA_HOST, and start Errand again."
  );
}
