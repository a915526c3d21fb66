/** Checks of a search space against the GPU catalogue, the price book and the model. */
import { protocolTable } from '../../profiler/protocols/protocol-table.ts'
import type { Configuration, SearchSpace } from '../../search/types.ts'
import {
  type Architecture,
  findArchitecture,
  getInputKind,
} from '../../trials/devices/architecture.ts'
import { findGpu, type Gpu } from '../../trials/devices/catalogue.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { listMigProfiles, matchMigProfile } from '../../trials/devices/mig.ts'
import { isOnnxFile } from '../../trials/devices/onnx/graph-architecture.ts'
import { readOnnxFile } from '../../trials/devices/onnx/graph-file.ts'
import type { PredictorTemplate } from '../../trials/launchers/template.ts'
import { suggestNames } from '../../trials/near-names.ts'
import { maxGgufSequences } from '../../trials/predictor/llm/gguf/gguf-knobs.ts'
import { quantizations } from '../../trials/predictor/llm/step-model.ts'
import { modelNames } from '../../trials/predictor/models/model-names.ts'
import {
  formatUnpricedHint,
  type PriceBook,
  PriceError,
  pricePerHour,
} from '../../trials/prices/book.ts'
import { listProvidersWith } from '../../trials/prices/providers.ts'
import { parseResources, poolParameters } from '../../trials/resources.ts'
import { isSecretChoice } from '../../trials/secrets.ts'
import { parseHubName } from '../../trials/servers/language-servers.ts'
import type { Context, Report } from './context.ts'
import { isKindUnknown } from './layers.ts'
import { type LocalGpu, listLocalGpus } from './local-gpus.ts'
import { findServerUrl } from './server-urls.ts'
import type { Experiment, ModelSpec } from './types.ts'
import type { Path } from './yaml-file.ts'

const gpuParameters = ['gpuMemoryPercent', 'migProfile', 'sharing']

/** Tuned values appear in the store, tables and files, so they must not contain secrets. */
export function checkNoSecretChoices({ entries, report }: Context, space: SearchSpace): void {
  for (const parameter of space.parameters) {
    if (
      parameter.kind !== 'categorical' ||
      !parameter.values.some((value) => isSecretChoice(parameter.name, value))
    )
      continue
    const section = Object.hasOwn(entries.pin ?? {}, parameter.name) ? 'pin' : 'space'
    report(
      [section, parameter.name],
      `the values of ${parameter.name} contain a secret`,
      'a secret cannot be tuned: put it into predictor.env',
    )
  }
}

/** GPUs of the space must have a price and, unless emulated, exist on this machine. */
export function checkGpus(
  { entries, report, host, own }: Context,
  space: SearchSpace,
  devicesUsed: Experiment['devicesUsed'],
  book: PriceBook,
): void {
  const gpu = space.parameters.find((parameter) => parameter.name === 'gpu')
  if (gpu?.kind !== 'categorical') {
    const isWritten = (name: string) =>
      Object.hasOwn(entries.space ?? {}, name) || Object.hasOwn(entries.pin ?? {}, name)
    for (const name of isWritten('gpu') ? [] : gpuParameters.filter(isWritten))
      report(
        Object.hasOwn(entries.space ?? {}, name) ? ['space', name] : ['pin', name],
        `${name} has no effect without a GPU`,
        'set the GPU, as in --gpus T4, or leave the parameter out',
      )
    return
  }
  const localGpus = listLocalGpus(host.machine, own.gpus)
  const local = entries.backend === 'local' && findServerUrl(entries.predictor) === undefined
  const mustExistHere = devicesUsed === 'gpu' && local && localGpus.length > 0
  const gpuPath: Path = Object.hasOwn(entries.pin ?? {}, 'gpu') ? ['pin', 'gpu'] : ['space', 'gpu']
  const names = gpu.values.filter((name) => name !== 'none')
  if (devicesUsed === 'cpu' && names.length > 0 && entries.devices === 'cpu')
    report(gpuPath, `GPUs (${names.join(', ')}) with devices: cpu`, 'remove one of them')
  checkMigProfiles(report, space, names, own.gpus)
  for (const name of names) {
    if (!book.gpus[name]) reportUnpriced(report, gpuPath, name, names, book)
    else if (book.instances)
      checkInstances(report, gpuPath, { ...findLargestReplica(space), gpu: name }, book, own.gpus)
    if (mustExistHere && !localGpus.some((offer) => offer.name === name))
      report(
        gpuPath,
        `this machine has no GPU ${name}`,
        `it has ${localGpus.map((offer) => offer.name).join(', ')}; use --devices emulated to emulate others`,
      )
  }
  if (mustExistHere && !host.isStored) checkCount(report, space, localGpus)
}

function reportUnpriced(
  report: Report,
  at: Path,
  name: string,
  names: readonly string[],
  book: PriceBook,
): void {
  const others = names.filter((other) => book.gpus[other])
  const hint = formatUnpricedHint(name, book, listProvidersWith(name, book))
  const without = others.length === 0 ? '' : `; or leave the GPU out: --gpus ${others.join(',')}`
  report(at, `the price book '${book.name}' has no price for the GPU ${name}`, `${hint}${without}`)
}

/** Finds the largest value of each resource in the space. */
function findLargestReplica({ parameters }: SearchSpace): Configuration {
  const maxima = Object.fromEntries(
    parameters.flatMap((p) =>
      p.kind === 'categorical' ||
      !['cpuCores', 'memoryMiB', 'gpus', ...poolParameters, 'decodeGpus'].includes(p.name)
        ? []
        : [[p.name, p.kind === 'ordinal' ? Math.max(...p.values) : p.max]],
    ),
  )
  const { prefillReplicas = 0, decodeReplicas = 0, decodeGpus: _, ...others } = maxima
  return prefillReplicas > 0 && decodeReplicas > 0 ? maxima : others
}

/** If GPUs are sold as instances, one instance must hold the largest replica. */
function checkInstances(
  report: Report,
  at: Path,
  configuration: Configuration,
  book: PriceBook,
  ownGpus: readonly Gpu[],
): void {
  try {
    pricePerHour(parseResources(configuration, {}, ownGpus), book)
  } catch (error) {
    if (!(error instanceof PriceError)) throw error
    report(at, error.problem, error.hint ?? '')
  }
}

/** A replica cannot have more GPUs than this machine has of one model. */
function checkCount(report: Report, space: SearchSpace, here: readonly LocalGpu[]): void {
  const parameter = space.parameters.find(({ name }) => name === 'gpus')
  if (parameter === undefined || parameter.kind === 'categorical') return
  const maxRequested = parameter.kind === 'ordinal' ? Math.max(...parameter.values) : parameter.max
  const maxPerModel = Math.max(
    ...here.map(({ wholeCount, slices }) =>
      wholeCount === 0 && slices.length > 0 ? 1 : wholeCount,
    ),
  )
  if (maxRequested > maxPerModel)
    report(
      ['space', 'gpus'],
      `gpus: ${maxRequested} GPUs per replica, but this machine has ${maxPerModel}`,
      'use fewer',
    )
}

/** llama.cpp limits the number of sequences, whatever the memory. */
export function checkSequences(
  { report, entries }: Context,
  predictor: PredictorTemplate,
  { parameters }: SearchSpace,
): void {
  const parameter = parameters.find(({ name }) => name === 'maxNumSeqs')
  if (
    predictor.kind !== 'builtin' ||
    predictor.engine !== 'gguf' ||
    parameter === undefined ||
    parameter.kind === 'categorical'
  )
    return
  const maxRequested = parameter.kind === 'ordinal' ? Math.max(...parameter.values) : parameter.max
  if (maxRequested <= maxGgufSequences) return
  const section = Object.hasOwn(entries.pin ?? {}, 'maxNumSeqs') ? 'pin' : 'space'
  report(
    [section, 'maxNumSeqs'],
    `maxNumSeqs: ${maxRequested} sequences, but llama.cpp supports at most ${maxGgufSequences}`,
    'use fewer',
  )
}

/**
 * A MIG profile must exist on at least one of the GPUs; on the others its trials are infeasible.
 */
function checkMigProfiles(
  report: Context['report'],
  space: SearchSpace,
  gpus: readonly string[],
  own: readonly Gpu[],
): void {
  const parameter = space.parameters.find(({ name }) => name === 'migProfile')
  if (parameter?.kind !== 'categorical') return
  const models = gpus.map((gpu) => findGpu(gpu, own))
  const profiles = models.flatMap(listMigProfiles).map(({ name }) => name)
  const exists = (profile: string) =>
    models.some((gpu) => matchMigProfile(gpu, profile) !== undefined)
  for (const profile of parameter.values.filter((value) => value !== 'none' && !exists(value)))
    report(
      ['space', 'migProfile'],
      `migProfile: none of ${gpus.join(', ')} has the profile ${profile}`,
      profiles.length > 0
        ? suggestNames(profile, [...new Set(profiles)])
        : 'only A30, A100, H100 and later GPUs support MIG',
    )
}

/**
 * The model must be one that the engine can build or the device model knows, unless a real engine
 * loads the user's own files.
 */
export function checkArchitecture(
  { report, invalidKeys, entries, own }: Context,
  model: ModelSpec,
  predictor: PredictorTemplate,
  devicesUsed: Experiment['devicesUsed'],
  space: SearchSpace,
): void {
  if (invalidKeys.has('model') || entries.model === undefined || isKindUnknown(invalidKeys)) return
  if (predictor.kind === 'builtin' && model.version !== undefined && model.path === undefined)
    report(
      ['model', 'version'],
      'a version of a model without files',
      'set the path of the folder with the version folders',
    )
  // A server that takes the name in the request body accepts any form of it:
  // meta-llama/Llama-3.1-8B, llama3:8b.
  const onHub = model.path === undefined && parseHubName(model.name) !== undefined
  const inUrl =
    (predictor.kind === 'builtin' && !onHub) ||
    (predictor.kind !== 'builtin' && protocolTable[predictor.protocol].metadata)
  if (inUrl && !/^[^/:\s]+$/.test(model.name))
    report(
      ['model', 'name'],
      `'${model.name}' cannot be used in a URL`,
      'remove slashes, colons and spaces',
    )
  if (predictor.kind !== 'builtin' || (model.path !== undefined && devicesUsed !== 'emulated'))
    return
  const nearest =
    model.path === undefined
      ? ''
      : '; to emulate your own model, set the most similar architecture: architecture: bert-base'
  try {
    const architecture = findArchitecture(model.architecture, own.architectures)
    checkInputs(report, architecture, space)
    checkWeights(report, architecture, space)
    if (devicesUsed === 'emulated' || (modelNames as readonly string[]).includes(architecture.name))
      return
    report(
      ['model'],
      `the built-in predictor cannot run '${model.architecture}' on real hardware`,
      `emulate it (--devices emulated), or use ${modelNames.join(', ')} or the path of a model`,
    )
  } catch (error) {
    if (!(error instanceof DeviceModelError)) throw error
    const unread = isOnnxFile(model.path) ? explainUnreadGraph(model.path) : undefined
    if (unread)
      report(
        ['model', 'path'],
        unread.message,
        'or set the most similar architecture: architecture: bert-base',
      )
    else if (onHub)
      report(
        ['model'],
        `'${model.name}' is a name on the Hub, but the built-in predictor needs an architecture`,
        `${error.hint ?? ''} For other architectures, use --model FOLDER/config.json. tune spec --model-uri ${model.name} deploys the weights`,
      )
    else
      report(
        ['model'],
        `unknown model '${model.architecture}'`,
        `${error.hint ?? ''}${nearest || '; for any other transformer, use its config.json: --model FOLDER/config.json'}`,
      )
  }
}

/** Weights that are stored quantised must not be modelled as 16-bit ones. */
function checkWeights(
  report: Report,
  architecture: Architecture,
  { parameters }: SearchSpace,
): void {
  const quantizationMethod =
    architecture.kind === 'decoder' ? architecture.quantizationMethod : undefined
  if (
    quantizationMethod === undefined ||
    parameters.some(({ name }) => name === 'quantization' || name === 'precision')
  )
    return
  report(
    ['model'],
    `its config.json declares quantised weights (${quantizationMethod}), but the experiment sets no quantization, so tune would assume 16 bits`,
    (quantizations as readonly string[]).includes(quantizationMethod)
      ? `add --pin quantization=${quantizationMethod}`
      : 'such weights are not modelled; the closest may be --pin quantization=awq (4.25 bits per weight) or fp8 (8 bits); quantization=none assumes 16 bits',
  )
}

function explainUnreadGraph(path: string): DeviceModelError | undefined {
  try {
    readOnnxFile(path)
    return undefined
  } catch (error) {
    if (error instanceof DeviceModelError) return error
    throw error
  }
}

/** Parameters of the built-in predictor that apply only to language models, and only to others. */
const languageParameters: ReadonlySet<string> = new Set([
  'maxNumSeqs',
  'maxNumBatchedTokens',
  'maxModelLen',
  'gpuMemoryUtilization',
  'speculativeTokens',
  'speculativeMethod',
  'speculativeModel',
  ...poolParameters,
  'decodeGpus',
])
const tensorParameters: ReadonlySet<string> = new Set([
  'batchSize',
  'maxDelayMs',
  'instances',
  'cpuThreads',
  'imageSize',
  'sequenceLength',
])

/** Parameters of the input must apply to the model and be within its limits. */
function checkInputs(report: Report, architecture: Architecture, space: SearchSpace): void {
  const takes = getInputKind(architecture)
  const fixed = architecture.kind === 'graph' ? architecture.fixedSize : undefined
  const generates = architecture.kind === 'decoder'
  for (const parameter of space.parameters) {
    const { name } = parameter
    if ((generates ? tensorParameters : languageParameters).has(name))
      report(
        ['space', name],
        `${name} has no effect on ${architecture.name}`,
        generates
          ? `parameters of language models are ${[...languageParameters].join(', ')}`
          : 'it applies to language models; use batchSize for this model',
      )
    const sized = { imageSize: 'image', sequenceLength: 'text' }[name]
    if (sized !== undefined && (sized !== takes || fixed !== undefined))
      report(
        ['space', name],
        `${name} has no effect on ${architecture.name}`,
        sized === takes
          ? `the model file fixes it at ${fixed}; export the model with a dynamic axis`
          : `its input is ${{ text: 'text: use sequenceLength', image: 'images: use imageSize', tensor: 'tensors of fixed size' }[takes]}`,
      )
    if (
      architecture.kind === 'convnet' ||
      takes !== 'text' ||
      name !== 'sequenceLength' ||
      parameter.kind === 'categorical'
    )
      continue
    const longest = parameter.kind === 'ordinal' ? Math.max(...parameter.values) : parameter.max
    if (longest > architecture.maxSequenceLength)
      report(
        ['space', name],
        `sequenceLength: ${longest} tokens, but ${architecture.name} supports at most ${architecture.maxSequenceLength}`,
        'use fewer',
      )
  }
}
