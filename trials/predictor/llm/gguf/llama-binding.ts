/**
 * Opens a GGUF file in llama.cpp through node-llama-cpp, which is an optional package. Nothing is
 * built or downloaded: its npm packages contain the binaries.
 */
import { OutOfMemoryError } from '../../engine.ts'
import { findModelFile } from '../../models/model-file.ts'
import { ModelError } from '../../models/model-registry.ts'
import { bindingInstall, bindingName, normaliseCiVariable } from './gguf-knobs.ts'

export type Token = number

type Evaluated = readonly ({ readonly next?: { readonly token?: Token | null } } | undefined)[]
export type EvaluationInput =
  | Token
  | readonly [Token, { readonly generateNext: { readonly token: true } }]

/** A slot in the cache, and its content. */
export interface LlamaSequence {
  readonly contextTokens: readonly Token[]
  eraseContextTokenRanges(
    ranges: readonly { readonly start: number; readonly end: number }[],
  ): Promise<void>
  controlledEvaluate(input: readonly EvaluationInput[]): Promise<Evaluated>
}

interface ContextOptions {
  readonly contextSize: number
  readonly sequences: number
  readonly batchSize: number
  readonly threads: number
  readonly flashAttention: 'auto' | boolean
  readonly experimentalKvCacheKeyType: string
  readonly experimentalKvCacheValueType: string
  readonly failedCreationRemedy: false
}

interface Memory {
  /** Bytes. */
  readonly vram: number
}

interface LlamaContext {
  readonly contextSize: number
  readonly memoryUsage: Memory
  getSequence(): LlamaSequence
}

export interface LlamaModel {
  readonly trainContextSize: number
  readonly gpuLayers: number
  readonly memoryUsage: Memory
  readonly tokens: { readonly bos: Token | null; readonly shouldPrependBosToken: boolean }
  tokenize(text: string): Token[]
  detokenize(tokens: readonly Token[], special: boolean, before?: readonly Token[]): string
  isEogToken(token: Token): boolean
  createContext(options: ContextOptions): Promise<LlamaContext>
}

export interface Llama {
  readonly gpu: string | false
  getGpuDeviceNames(): Promise<readonly string[]>
  loadModel(options: {
    readonly modelPath: string
    readonly gpuLayers: number | 'max'
  }): Promise<LlamaModel>
  dispose(): Promise<void>
}

/** The used part of node-llama-cpp. */
interface Binding {
  getLlama(options: {
    readonly build: 'never'
    readonly skipDownload: true
    readonly progressLogs: false
    readonly gpu: 'auto' | false
    readonly maxThreads: number
    readonly logLevel: 'error'
  }): Promise<Llama>
}

/**
 * @throws Error with installation instructions, or if there is no binary for this machine or GPU
 */
export async function startLlama(
  { gpu, threads }: { readonly gpu: boolean; readonly threads: number },
  load: () => Promise<unknown> = () => import(bindingName as string),
): Promise<Llama> {
  let binding: Binding
  process.env.CI = normaliseCiVariable(process.env.CI)
  try {
    binding = (await load()) as Binding
  } catch (error) {
    throw new Error(
      `GGUF models need ${bindingName}, which cannot be imported (${getFirstLine(error)}); install it with '${bindingInstall}'`,
    )
  }
  const options = {
    build: 'never',
    skipDownload: true,
    progressLogs: false,
    maxThreads: threads,
    logLevel: 'error',
  } as const
  let llama: Llama
  try {
    llama = await binding.getLlama({ ...options, gpu: gpu ? 'auto' : false })
  } catch (error) {
    throw new Error(
      `${bindingName} has no llama.cpp for this machine (${getFirstLine(error)}); its binaries are optional packages of npm: install it again ` +
        `without --omit=optional: '${bindingInstall}'`,
    )
  }
  const problem = gpu ? await findGpuProblem(llama) : undefined
  if (problem === undefined) return llama
  await llama.dispose()
  throw new Error(problem)
}

/** Why llama.cpp may use another GPU than the assigned one: Vulkan ignores CUDA_VISIBLE_DEVICES. */
async function findGpuProblem(llama: Llama): Promise<string | undefined> {
  if (llama.gpu === false)
    return `${bindingName} finds no usable GPU (CUDA, Vulkan or Metal); run on CPU, or check the driver`
  if (llama.gpu !== 'vulkan' || process.env.GGML_VK_VISIBLE_DEVICES !== undefined) return undefined
  const names = await llama.getGpuDeviceNames()
  if (names.length < 2) return undefined
  return (
    `${bindingName} uses Vulkan here, which takes all ${names.length} GPUs (${names.join(', ')}); install the requirements of its CUDA binary (the CUDA ` +
    'runtime and cuBLAS), or select one by its number in env: {GGML_VK_VISIBLE_DEVICES: 0}'
  )
}

/** @throws ModelError for an invalid file, OutOfMemoryError */
export async function openModel(
  llama: Llama,
  path: string | undefined,
  gpuLayers: number | 'max',
): Promise<LlamaModel> {
  if (path === undefined)
    throw new ModelError('the gguf engine has no model', '--model-path names a .gguf file')
  const modelPath = await findModelFile(path, 'gguf')
  try {
    return await llama.loadModel({ modelPath, gpuLayers })
  } catch (error) {
    if (isOutOfMemory(error)) throw new OutOfMemoryError(getFirstLine(error))
    throw new ModelError(
      `'${path}' does not load: ${getFirstLine(error)}`,
      'check that it is a complete GGUF file of a language model',
    )
  }
}

/** @throws OutOfMemoryError if the cache of all sequences does not fit, Error of llama.cpp */
export async function openContext(
  model: LlamaModel,
  options: ContextOptions,
): Promise<LlamaContext> {
  const { sequences, contextSize } = options
  try {
    return await model.createContext(options)
  } catch (error) {
    const what = `${sequences} sequences of ${contextSize} tokens: ${getFirstLine(error)}`
    if (isOutOfMemory(error)) throw new OutOfMemoryError(`out of memory: ${what}`)
    throw new Error(`llama.cpp cannot create a context of ${what}`)
  }
}

/** Recognises the binding's own class of errors, and messages of llama.cpp. */
const isOutOfMemory = (error: unknown): boolean =>
  error instanceof Error &&
  (error.constructor.name === 'InsufficientMemoryError' ||
    /out of memory|failed to allocate|too large for the available/i.test(error.message))

const getFirstLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n')[0]!
