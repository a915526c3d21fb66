/** Resolves the predictor of an experiment and the devices that it uses. */
import { existsSync, statSync } from 'node:fs'
import { latencyMetrics } from '../../profiler/model/latency-metrics.ts'
import { portPattern } from '../../profiler/prometheus.ts'
import { findFieldFileFault, listFields, parseField } from '../../profiler/protocols/form-fields.ts'
import { type ProtocolName, protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { findRequestFault } from '../../profiler/protocols/request-format.ts'
import { isGrpcUrl } from '../../profiler/server-address.ts'
import {
  type Architecture,
  type Decoder,
  findArchitecture,
} from '../../trials/devices/architecture.ts'
import type { CustomDevices } from '../../trials/devices/custom-devices.ts'
import { DeviceModelError } from '../../trials/devices/device-model-error.ts'
import { isOnnxFile, nameGraph } from '../../trials/devices/onnx/graph-architecture.ts'
import type { ComputingEngine } from '../../trials/launchers/builtin.ts'
import type {
  BuiltinTemplate,
  CommandTemplate,
  PredictorTemplate,
  PrepareStep,
  RequestSettings,
} from '../../trials/launchers/template.ts'
import { isGgufFile } from '../../trials/predictor/llm/gguf/gguf-knobs.ts'
import { type BuiltinProtocol, spoken } from '../../trials/predictor/protocol/spoken.ts'
import { replaceReferences } from '../../trials/secrets.ts'
import { recogniseServer } from '../../trials/servers/own-command.ts'
import { createServerCommand, getServerProtocol } from '../../trials/servers/preset.ts'
import { isLanguageServer } from '../../trials/servers/server-kinds.ts'
import { type Context, isMissing } from './context.ts'
import { isUserPredictor } from './kubernetes-settings.ts'
import { defaults } from './names.ts'
import type { ExperimentEntries, Settings } from './schema/experiment-schema.ts'
import { resolveServedFolder, resolveWeights } from './served-model.ts'
import { findServerUrl, resolveUrlTemplate } from './server-urls.ts'
import type { Experiment, ModelSpec } from './types.ts'
import { listLimits } from './values/parse-slo.ts'
import { parseDurationMs } from './values/units.ts'

/**
 * Resolves the protocol of a server: the configured one, that of its preset, gRPC for a gRPC URL,
 * OpenAI for an SLO on streamed answers, otherwise the first tensor protocol.
 */
export function resolveProtocol({
  predictor = {},
  slo = {},
}: Pick<ExperimentEntries, 'predictor' | 'slo'>): ProtocolName {
  if (predictor.protocol !== undefined) return predictor.protocol
  if (predictor.server !== undefined) return getServerProtocol(predictor.server)
  if (isGrpcUrl(findServerUrl(predictor) ?? '')) return 'grpc-v2'
  const ofStream = listLimits(slo).some(({ metric }) => latencyMetrics[metric].streamed)
  return ofStream ? 'openai' : spoken.tensors[0]
}

export function resolvePredictor(context: Context, model: ModelSpec): PredictorTemplate {
  const { entries, report, own } = context
  const {
    server,
    kvTransfer,
    engine,
    protocol,
    path,
    signature,
    healthPath,
    body,
    contentType,
    form,
    headers,
    env,
    acceptance,
    readyTimeout,
  } = entries.predictor ?? {}
  const kind = resolveKind(context)
  const started = entries.predictor?.command
  const ownProtocol = started && recogniseServer(started)?.protocol
  const ofLanguage =
    (server !== undefined && isLanguageServer(server)) ||
    (ownProtocol && protocolTable[ownProtocol].streams)
  const loadsWeights = kind === 'command' && ofLanguage
  const usualReady = loadsWeights ? defaults.languageReadyTimeout : defaults.readyTimeout
  const readyTimeoutS = (readyTimeout ?? parseDurationMs(usualReady)) / 1000
  if (kind === 'builtin') {
    const built =
      engine ?? (model.path?.endsWith('.onnx') ? 'onnx' : isGgufFile(model.path) ? 'gguf' : 'auto')
    // Unknown models are reported elsewhere. With a language-model server they count as language
    // models.
    const unknown =
      server !== undefined &&
      isLanguageServer(server) &&
      findKnownArchitecture(model.architecture, own) === undefined
    const protocolName = resolveBuiltinProtocol(
      report,
      protocol,
      model,
      own,
      built === 'gguf' || unknown,
    )
    if (built === 'gguf') checkGguf(context, model)
    if (server !== undefined && !protocolTable[protocolName].streams)
      report(
        ['predictor', 'server'],
        `${server} serves language models, but ${model.name} is not one`,
        'remove the server, or use a language model',
      )
    if (acceptance !== undefined && (built === 'gguf' || !protocolTable[protocolName].streams))
      report(
        ['predictor', 'acceptance'],
        'acceptance applies only to a simulated or emulated language model',
        'leave it out',
      )
    const standsFor = server !== undefined && isLanguageServer(server) ? { standsFor: server } : {}
    const way = kvTransfer && { kvTransfer: toKvTransfer(kvTransfer) }
    return {
      kind,
      model: model.name,
      engine: built,
      protocol: protocolName,
      ...standsFor,
      ...way,
      ...(acceptance !== undefined && { acceptance }),
      env,
      readyTimeoutS,
    }
  }
  const protocolName = resolveProtocol(entries)
  if (protocolTable[protocolName].needsPath && path === undefined)
    report(
      ['predictor', 'protocol'],
      `protocol '${protocolName}' needs the path of the inference call`,
      'set path: /predict',
    )
  if (protocolTable[protocolName].needsPath) checkRequest(context)
  const common: RequestSettings = {
    model: model.name,
    protocol: protocolName,
    path,
    signature,
    healthPath,
    body,
    contentType,
    form,
    headers,
    readyTimeoutS,
  }
  if (kind === 'imported')
    return { kind, from: entries.predictor?.from ?? [], model: model.name, protocol: protocolName }
  return kind === 'url'
    ? resolveUrlTemplate(context, common)
    : createCommandTemplate(context, common, model)
}

const toKvTransfer = ({
  bandwidth,
  latency,
}: NonNullable<NonNullable<ExperimentEntries['predictor']>['kvTransfer']>) => ({
  ...(bandwidth !== undefined && { gbPerS: bandwidth }),
  ...(latency !== undefined && { latencyMs: latency }),
})

/** GGUF models cannot be simulated: no device model covers llama.cpp. */
function checkGguf({ entries, report, host }: Context, { path }: ModelSpec): void {
  const { backend } = entries
  if (path === undefined)
    report(['predictor', 'engine'], 'the gguf engine needs a file', 'set it: --model ./model.gguf')
  if (backend === 'simulated' || entries.devices === 'emulated') {
    const hint =
      'use --backend local with --devices cpu or gpu, or set only its architecture: --model llama-3.1-8b'
    report(
      [backend === 'simulated' ? 'backend' : 'devices'],
      'a GGUF model can be neither simulated nor emulated',
      hint,
    )
  }
  const missing = backend === 'local' && !host.isStored ? host.machine.missingGguf : undefined
  if (missing !== undefined)
    report(['model'], `GGUF models are served through llama.cpp: ${missing.what}`, missing.install)
}

function checkRequest({ entries, report, host }: Context): void {
  const { body, contentType, form } = entries.predictor ?? {}
  const at = ['predictor', form === undefined ? 'body' : 'form']
  if (form !== undefined && (body !== undefined || contentType !== undefined))
    report(
      at,
      `both a form and a ${body === undefined ? 'content type' : 'body'}`,
      'use only one of them: a form has its own content type',
    )
  const fillReferences = (text: string) => replaceReferences(text, () => '1')
  const fault = form
    ? undefined
    : findRequestFault({ template: body && fillReferences(body), contentType })
  if (fault !== undefined) report(at, fault.what, fault.hint)
  for (const [name, written] of listFields(form ?? {})) {
    const text = fillReferences(written)
    const wrong = findRequestFault({ form: { [name]: text } })
    if (wrong !== undefined) {
      report(['predictor', 'form', name], wrong.what, wrong.hint)
      continue
    }
    const { kind, content } = parseField(text)
    // The files of a stored experiment may be gone.
    const isMissingFromStored = host.isReadOnly && kind !== 'value' && !existsSync(content)
    const missing = isMissingFromStored ? undefined : findFieldFileFault(text)
    if (missing !== undefined) report(['predictor', 'form', name], missing.what, missing.hint)
  }
}

/** Keys that describe requests to a predictor of any kind but the built-in one. */
const requestKeys = [
  'kind',
  'protocol',
  'path',
  'signature',
  'healthPath',
  'body',
  'contentType',
  'form',
  'headers',
  'readyTimeout',
]
/** Keys that apply to each kind, besides the keys that determine the kind. */
const keysByKind: Readonly<Record<PredictorTemplate['kind'], readonly string[]>> = {
  builtin: ['kind', 'engine', 'protocol', 'kvTransfer', 'acceptance', 'env', 'readyTimeout'],
  command: [
    ...requestKeys,
    'env',
    'envNames',
    'argFormat',
    'files',
    'prepare',
    'reconfigure',
    'cwd',
  ],
  imported: ['kind', 'protocol'],
  url: [...requestKeys, 'urls', 'http2', 'ca', 'tls', 'insecureSkipVerify'],
}
const kindDecidingKeys = ['command', 'server', 'url', 'urls', 'from']

/**
 * Whether the built-in predictor models the named language-model server, because nothing real is
 * started.
 */
const isServerModelled = ({
  predictor: { server, command } = {},
  backend,
  devices,
}: Settings): boolean =>
  server !== undefined &&
  isLanguageServer(server) &&
  command === undefined &&
  (backend === 'simulated' || devices === 'emulated')

/** Resolves the kind that the keys imply. Reports keys that contradict each other. */
function resolveKind({ entries, report }: Context): PredictorTemplate['kind'] {
  const settings = entries.predictor ?? {}
  const { command, server } = settings
  const url = findServerUrl(settings)
  const started = command !== undefined || (server !== undefined && !isServerModelled(entries))
  const inPod = isUserPredictor(entries.kubernetes?.pod) && url === undefined
  const kind =
    started || inPod
      ? 'command'
      : url !== undefined
        ? 'url'
        : settings.from !== undefined
          ? 'imported'
          : 'builtin'
  if (started && url !== undefined)
    report(
      ['predictor', 'url'],
      `a predictor with both a ${command === undefined ? 'server to start' : 'command'} and a URL`,
      'use only one of them',
    )
  if (settings.kind !== undefined && settings.kind !== kind)
    report(
      ['predictor', 'kind'],
      `kind ${settings.kind}, but its keys make it ${kind}`,
      `a ${settings.kind} predictor needs ${{ builtin: 'neither command nor url', command: "'command'", url: "'url'", imported: "'from'" }[settings.kind]}`,
    )
  for (const key of Object.keys(settings))
    if (!keysByKind[kind].includes(key) && !kindDecidingKeys.includes(key))
      report(['predictor', key], `'${key}' does not apply to a ${kind} predictor`, 'remove it')
  return kind
}

function createCommandTemplate(
  context: Context,
  common: RequestSettings,
  model: ModelSpec,
): CommandTemplate {
  const { entries, report, resolveFolder, host } = context
  const { command, server, env, envNames, argFormat, files, prepare, reconfigure, cwd } =
    entries.predictor ?? {}
  if (isUserPredictor(entries.kubernetes?.pod)) {
    if (prepare !== undefined)
      report(
        ['predictor', 'prepare'],
        'prepare runs on this machine, but trials run on a cluster',
        'use initContainers in kubernetes.pod',
      )
    if (reconfigure !== undefined)
      report(
        ['predictor', 'reconfigure'],
        'reconfigure runs on this machine, but trials run on a cluster',
        'tune these values as arguments or environment variables of the pod',
      )
    return { kind: 'command', command: [], envNames, argFormat, ...common }
  }
  const folder = cwd ?? resolveFolder(['predictor', 'command'])
  if (
    cwd !== undefined &&
    (isMissing(folder, host) || (existsSync(folder) && !statSync(folder).isDirectory()))
  )
    report(
      ['predictor', 'cwd'],
      `no folder ${folder}`,
      'paths are relative to the folder of the file that contains them',
    )
  const texts = Object.entries(files ?? {}).map(([file, template]) => ({ path: file, template }))
  const modelPath =
    server &&
    (isLanguageServer(server)
      ? resolveWeights(server, model, report)
      : resolveServedFolder(server, model, context))
  const started = command ?? (server === undefined ? [] : createServerCommand(server, modelPath!))
  const preset = server && {
    kind: server,
    modelPath: modelPath!,
    ...(protocolTable[common.protocol].transport === 'grpc' && { grpc: true }),
    ...(server === 'triton' && findTritonMetricsPort(context.entries.metrics)),
  }
  if (reconfigure !== undefined && server === 'triton')
    report(
      ['predictor', 'reconfigure'],
      'tune sets the values of Triton through its model control',
      'leave it out',
    )
  const step = prepare && resolvePrepareStep(context, prepare)
  const startSettings = {
    env,
    envNames,
    argFormat,
    files: texts,
    prepare: step,
    reconfigure,
    cwd: folder,
  }
  return { kind: 'command', command: started, server: preset, ...startSettings, ...common }
}

/** Finds the separate port of Triton's metrics, if a metric names one. */
function findTritonMetricsPort(metrics: ExperimentEntries['metrics'] = []): {
  metricsPort?: number
} {
  const port = metrics.map(({ from = '' }) => portPattern.exec(from)?.[1]).find(Boolean)
  return port === undefined ? {} : { metricsPort: Number(port) }
}

function resolvePrepareStep(
  { report, host }: Context,
  {
    command,
    env,
    inputs,
    timeout,
  }: NonNullable<NonNullable<ExperimentEntries['predictor']>['prepare']>,
): PrepareStep {
  for (const path of inputs ?? [])
    if (isMissing(path, host))
      report(
        ['predictor', 'prepare'],
        `no file or folder ${path}`,
        'paths are relative to the folder of the file that contains them',
      )
  return {
    command,
    env,
    inputs,
    timeoutS: timeout === undefined ? undefined : timeout / 1000,
  }
}

/**
 * Language models use the OpenAI protocol, other models a tensor protocol.
 * @param generates whether it is a language model although its architecture is unknown
 */
function resolveBuiltinProtocol(
  report: Context['report'],
  protocol: NonNullable<ExperimentEntries['predictor']>['protocol'],
  model: ModelSpec,
  own: CustomDevices,
  generates: boolean,
): BuiltinProtocol {
  const names: readonly BuiltinProtocol[] =
    generates || findLanguageModel(model.architecture, own) ? spoken.prompts : spoken.tensors
  const match = names.find((name) => name === protocol)
  if (protocol !== undefined && match === undefined)
    report(
      ['predictor', 'protocol'],
      `the built-in predictor does not speak ${protocol} with ${model.name}`,
      `use ${names.join(', ')}`,
    )
  return match ?? names[0]!
}

/** Undefined also for an unknown architecture, which is reported elsewhere. */
export function findLanguageModel(name: string, own: CustomDevices): Decoder | undefined {
  const architecture = findKnownArchitecture(name, own)
  return architecture?.kind === 'decoder' ? architecture : undefined
}

function findKnownArchitecture(name: string, own: CustomDevices): Architecture | undefined {
  try {
    return findArchitecture(name, own.architectures)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

/** Reports a problem such as 'predictor.command[2]: unknown ...' at the key that it names. */
export function reportTemplateProblem({ report }: Context, problem: string): void {
  const [, key = '', rest = problem] =
    /^(command|env|files|prepare|reconfigure|argFormat|cwd)\b[^:]*:\s*(.*)$/s.exec(problem) ?? []
  const [what = '', ...hint] = rest.split('; ')
  report(
    key ? ['predictor', key] : ['predictor'],
    key ? `predictor.${key}: ${what}` : what,
    hint.join('; '),
  )
}

/**
 * Chooses the engine of the built-in predictor that can use a GPU of this machine; undefined if
 * none can. ONNX Runtime comes first, because it supports current CUDA versions.
 */
function chooseGpuEngine(
  { engine }: Pick<BuiltinTemplate, 'engine'>,
  { path }: ModelSpec,
  drivesGpus: (engine: ComputingEngine) => boolean,
): ComputingEngine | undefined {
  if (engine === 'gguf') return drivesGpus(engine) ? engine : undefined
  const able =
    engine === 'onnx'
      ? (['onnx'] as const)
      : engine === 'tfjs' || path !== undefined
        ? (['tfjs'] as const)
        : (['onnx', 'tfjs'] as const)
  return able.find(drivesGpus)
}

export function resolveDevices(
  { entries, report, host }: Context,
  predictor: PredictorTemplate,
  model: ModelSpec,
): Experiment['devicesUsed'] {
  const { devices, backend } = entries
  const { gpus, slices = [], drivesGpus = () => true } = host.machine
  const runsAnywhere =
    predictor.kind === 'builtin' && (predictor.engine === 'onnx' || predictor.engine === 'gguf')
  const hasUsableGpu =
    gpus.length + slices.length > 0 &&
    (predictor.kind !== 'builtin' || chooseGpuEngine(predictor, model, drivesGpus) !== undefined)
  if (backend === 'simulated' && predictor.kind !== 'builtin')
    report(
      ['backend'],
      `cannot simulate a ${predictor.kind} predictor: its behaviour is unknown`,
      'use --backend local',
    )
  if (predictor.kind === 'builtin' && predictor.engine === 'emulated') {
    if (devices === 'cpu' || (devices === 'gpu' && backend !== 'simulated'))
      report(
        ['predictor', 'engine'],
        `the emulated engine with devices: ${devices}`,
        'use devices: emulated',
      )
    return 'emulated'
  }
  if (devices === 'emulated') {
    if (predictor.kind !== 'builtin')
      report(
        ['devices'],
        `a ${predictor.kind} predictor cannot use an emulated GPU`,
        'use devices: cpu or gpu, or the built-in predictor',
      )
    return 'emulated'
  }
  if (devices === 'gpu' && backend === 'local' && !hasUsableGpu)
    report(
      ['devices'],
      'this machine has no GPU that a predictor can use',
      'run tune doctor for the reason, or use --devices emulated or cpu',
    )
  if (devices !== 'auto') return backend === 'simulated' && devices === 'gpu' ? 'emulated' : devices
  if (predictor.kind !== 'builtin') {
    const startedHere = predictor.kind === 'command' && backend === 'local' && !host.isStored
    return isGpuChosen(entries) || (startedHere && hasUsableGpu) ? 'gpu' : 'cpu'
  }
  if (backend === 'kubernetes') return 'gpu'
  if (backend === 'local' && hasUsableGpu) return 'gpu'
  // Emulation needs an architecture, which a model file does not name; the file itself runs on CPU.
  return backend === 'local' && runsAnywhere ? 'cpu' : 'emulated'
}

/** Whether the user chose the GPUs. */
export const isGpuChosen = ({ space, pin }: Pick<Settings, 'space' | 'pin'>) =>
  Object.hasOwn(space ?? {}, 'gpu') || Object.hasOwn(pin ?? {}, 'gpu')

/**
 * Resolves the built-in predictor as trials start it. Real engines serve the user's files under the
 * model's name. Emulated devices and models with random weights use the architecture's name.
 */
export function resolveBuiltin(
  template: BuiltinTemplate,
  model: ModelSpec,
  devicesUsed: Experiment['devicesUsed'],
  {
    gpuCatalogue,
    drivesGpus,
  }: {
    readonly gpuCatalogue?: string
    readonly drivesGpus?: (engine: ComputingEngine) => boolean
  } = {},
): BuiltinTemplate {
  if (devicesUsed === 'emulated') {
    const graph =
      isOnnxFile(model.path) && model.architecture === nameGraph(model.path)
        ? model.path
        : undefined
    return {
      ...template,
      model: model.architecture,
      engine: 'emulated',
      gpuCatalogue,
      architectureFile: model.architecturePath ?? graph,
    }
  }
  if (model.path === undefined) {
    const engine =
      devicesUsed === 'gpu' && template.engine === 'auto' && drivesGpus
        ? (chooseGpuEngine(template, model, drivesGpus) ?? 'auto')
        : template.engine
    return { ...template, model: model.architecture, engine }
  }
  const version: Record<string, string> =
    model.version === undefined ? {} : { MODEL_VERSION_POLICY: `specific:${model.version}` }
  return {
    ...template,
    model: model.name,
    env: { MODEL_PATH: model.path, ...version, ...template.env },
  }
}
