/**
 * The binding to llama.cpp, an optional package, and its settings in addition to those of all
 * language-model servers.
 */
export const bindingName = 'node-llama-cpp'
export const bindingInstall = `npm install ${bindingName}@3.22.1`

/**
 * Value of the variable CI for the binding: its import fails for other values, but some CI systems
 * set it to their name, or to nothing.
 */
export const normaliseCiVariable = (ci = ''): 'true' | 'false' =>
  ['', 'false', '0'].includes(ci.toLowerCase()) ? 'false' : 'true'

/** Whether a path is that of a language model's file that llama.cpp runs. */
export const isGgufFile = (path: string | undefined): path is string =>
  path !== undefined && /\.gguf$/i.test(path)

/** Default number of concurrent sequences: each reserves memory from the start. */
export const ggufSequences = 4
/** LLAMA_MAX_SEQ: llama.cpp makes no context of more. */
export const maxGgufSequences = 256

export const kvCacheTypes = ['f16', 'q8_0', 'q4_0'] as const
export const flashAttentions = ['auto', 'on', 'off'] as const
