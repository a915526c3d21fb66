/**
 * The binding to llama.cpp, an optional package, and what may be chosen of it beside what servers
 * of language models have in common.
 */
export const bindingName = 'node-llama-cpp'
export const bindingInstall = `npm install ${bindingName}@3.22.1`

/**
 * What CI is set to for the binding: it fails at its import where that is neither yes nor no, and
 * some CI set it to their name, or to nothing.
 */
export const plainCi = (ci = ''): 'true' | 'false' =>
  ['', 'false', '0'].includes(ci.toLowerCase()) ? 'false' : 'true'

/** Whether a path is that of a language model's file that llama.cpp runs. */
export const isGgufFile = (path: string | undefined): path is string =>
  path !== undefined && /\.gguf$/i.test(path)

/**
 * Sequences under way at once where nothing is said: each takes its part of the memory from the
 * start.
 */
export const ggufSequences = 4
/** LLAMA_MAX_SEQ: llama.cpp makes no context of more. */
export const mostGgufSequences = 256

export const kvCacheTypes = ['f16', 'q8_0', 'q4_0'] as const
export const flashAttentions = ['auto', 'on', 'off'] as const
