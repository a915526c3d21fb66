/** Servers whose own flags and files are written for each trial. Light: help names them. */

/** Servers of language models: they fetch models of the Hub by themselves. */
export const languageServers = ['vllm', 'sglang', 'tgi', 'tensorrt-llm'] as const
export type LanguageServer = (typeof languageServers)[number]
export const isLanguageServer = (name: string): name is LanguageServer =>
  (languageServers as readonly string[]).includes(name)

export const serverKinds = ['tfserving', 'triton', ...languageServers] as const
export type ServerKind = (typeof serverKinds)[number]
