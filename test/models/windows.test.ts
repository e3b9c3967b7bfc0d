import { expect, test } from "bun:test";
import { windowOf } from "../../src/models/windows.ts";

test.each([
  ["openai/gpt-4.1-mini", 1_000_000],
  ["openai/gpt-4.15", 32_000],
  ["openai/gpt-5", 400_000],
  ["openai/gpt-50", 32_000],
  ["openai/gpt-4o-mini", 128_000],
  ["openai/chatgpt-4o-latest", 128_000],
  ["openai/ft:gpt-4.1-mini-2025-04-14:acme::a1", 1_000_000],
  ["openai/ft:gpt-4o-mini-2024-07-18:acme::a1", 128_000],
  ["openai/o3", 128_000],
  ["openai/my-claude", 32_000],
  ["anthropic/claude-sonnet-4-5", 200_000],
  ["gemini/gemini-2.5-flash", 1_000_000],
  ["gemini/models/gemini-2.5-flash", 1_000_000],
  ["gemini/gemini-flash-latest", 1_000_000],
  ["gemini/gemini-like", 32_000],
  ["openrouter/openai/gpt-4.1-mini", 1_000_000],
  ["openrouter/anthropic/claude-sonnet-4.5", 200_000],
  ["openrouter/meta/llama", 64_000],
  ["mistral/mistral-small-latest", 128_000],
  ["deepseek/deepseek-chat", 64_000],
  ["groq/llama-3.3-70b-versatile", 128_000],
  ["ollama/llama3.2", 8_000],
  ["ollama/gemini-distilled", 8_000],
  ["lmstudio/gpt-5-at-home", 8_000],
  ["llamacpp/claude-like", 8_000],
  ["vllm/qwen3", 32_000],
])("the window of %s", (model, tokens) => {
  expect(windowOf(model)).toBe(tokens);
});
