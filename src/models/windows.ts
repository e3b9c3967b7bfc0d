// How many tokens a model reads at once, by its provider or by how its own name begins; the first that fits counts.
const WINDOWS: [RegExp, number][] = [
  // Local servers cut the beginning off in silence where a prompt is longer than what they were started with,
  // whatever their models are called.
  [/^(ollama|lmstudio|llamacpp)\//, 8_000],
  [/\/(ft:)?gpt-4\.1(?!\d)/, 1_000_000],
  [/\/(ft:)?gpt-5(?!\d)/, 400_000],
  [/\/(ft:|chat)?gpt-4(o|-turbo)|^openai\/o\d/, 128_000],
  [/\/claude-/, 200_000],
  [/\/gemini-(\d|flash|pro)/, 1_000_000],
  [/^deepseek\//, 64_000],
  [/^mistral\//, 128_000],
  [/^groq\//, 128_000],
  [/^openrouter\//, 64_000],
];
const USUAL = 32_000;

/** The window of `model` (provider/name) in tokens; a careful guess where nothing is known of it. */
export const windowOf = (model: string): number => WINDOWS.find(([name]) => name.test(model))?.[1] ?? USUAL;
