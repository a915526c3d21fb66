/** Recognises the model server that a container of a manifest starts. */
import { type DeployedServer, recogniseCommandServer } from '../../figures.ts'
import { getValueAt, listAt, type YamlValue } from './yaml-values.ts'

/**
 * Fields of KServe's predictor that imply a server, without a list of containers. Undefined: the
 * field is known, and its server follows from the runtime.
 */
export const kserveFields: Readonly<Record<string, DeployedServer | undefined>> = {
  model: undefined,
  triton: 'triton',
  tensorflow: 'tfserving',
  pytorch: undefined,
  huggingface: 'vllm',
  sklearn: undefined,
  xgboost: undefined,
  lightgbm: undefined,
  onnx: undefined,
  pmml: undefined,
  paddle: undefined,
}

/** KServe's runtimes and formats, by parts of their names. */
const kserveRuntimes: readonly (readonly [RegExp, DeployedServer])[] = [
  [/huggingface|vllm/, 'vllm'],
  [/triton/, 'triton'],
  [/mlserver/, 'mlserver'],
  [/tensorflow|tf-?serving/, 'tfserving'],
]

/** Names of images, without their registry, folder, tag and digest. */
const imageNames: readonly (readonly [RegExp, DeployedServer])[] = [
  [/tritonserver/, 'triton'],
  [/tensorrt-?llm|trt-?llm/, 'tensorrt-llm'],
  [/vllm|huggingfaceserver/, 'vllm'],
  [/sglang/, 'sglang'],
  [/text-generation-inference|^tgi$/, 'tgi'],
  [/mlserver/, 'mlserver'],
  [/tensorflow-?serving|tf-?serving/, 'tfserving'],
  [/^tune(-predictor)?$/, 'builtin'],
]
/** Images of companions of a server, which contain its name. */
const companionImages = /router|gateway|proxy|exporter|bench|operator|controller|client|ui$/

/**
 * 'registry.example:5000/team/vllm-openai:v1' → 'vllm-openai'; '…/tensorrt-llm/release' →
 * 'tensorrt-llm'.
 */
export function parseImageName(image: string): string {
  const parts = image.replace(/@.*$/, '').split('/')
  const last = parts.at(-1)!.replace(/:.*$/, '')
  const folder = parts.at(-2) ?? ''
  if (folder === 'tensorflow' && last === 'serving') return 'tensorflow-serving'
  return last === 'release' ? folder : last
}

/** Lists all words of command and arguments; shell texts are split. */
export const listCommandWords = (container: YamlValue): string[] =>
  ['command', 'args'].flatMap((field) =>
    [getValueAt(container, [field])]
      .flat()
      .flatMap((text) => (text === undefined ? [] : String(text).split(/[\s"'\\;&|()]+/)))
      .filter((word) => word !== ''),
  )

/**
 * Recognises the server by its command, then its image, then KServe's field and runtime. Undefined
 * for unknown servers.
 * @param field name of the field of KServe's predictor that is the container, such as 'triton'
 */
export function recogniseServer(container: YamlValue, field?: string): DeployedServer | undefined {
  const words = listCommandWords(container)
  const commandServer = recogniseCommandServer(words)
  if (commandServer !== undefined) return commandServer
  const image = getValueAt(container, ['image'])
  if (typeof image === 'string') {
    const name = parseImageName(image)
    const server = imageNames.find(([pattern]) => pattern.test(name))?.[1]
    return server !== undefined && !companionImages.test(name)
      ? server
      : recogniseBuiltinByVariables(container)
  }
  if (field === undefined) return undefined
  const runtime = [
    getValueAt(container, ['runtime']),
    getValueAt(container, ['modelFormat', 'name']),
  ].find((name) => typeof name === 'string')
  const byRuntime = kserveRuntimes.find(([pattern]) =>
    pattern.test(String(runtime ?? '').toLowerCase()),
  )?.[1]
  return kserveFields[field] ?? byRuntime
}

/** Recognises the built-in predictor in the user's own image by its variables. */
function recogniseBuiltinByVariables(container: YamlValue): 'builtin' | undefined {
  const env = listAt(container, ['env'])
  const findValue = (name: string) =>
    getValueAt(
      env.find((one) => getValueAt(one, ['name']) === name),
      ['value'],
    )
  const isEngine = ['tfjs', 'onnx', 'gguf'].includes(String(findValue('ENGINE')))
  return isEngine && findValue('MODEL') !== undefined ? 'builtin' : undefined
}
