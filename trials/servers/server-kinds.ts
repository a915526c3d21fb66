/** Servers whose own flags and files are written for each trial. Light: help names them. */

/** Of language models: they fetch the Hub's models by themselves. */
export const languageServers = ['vllm', 'sglang', 'tgi', 'tensorrt-llm'] as const

export const serverKinds = ['tfserving', 'triton', ...languageServers] as const
