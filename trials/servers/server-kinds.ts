/**
 * Servers whose flags and files are generated for each trial. Loaded by --help, so without imports.
 */

/** Servers of language models: they fetch models of the Hub by themselves. */
export const languageServers = ['vllm', 'sglang', 'tgi', 'tensorrt-llm'] as const
export type LanguageServer = (typeof languageServers)[number]
export const isLanguageServer = (name: string): name is LanguageServer =>
  (languageServers as readonly string[]).includes(name)

export const serverKinds = ['tfserving', 'triton', ...languageServers] as const
export type ServerKind = (typeof serverKinds)[number]
