/** The predictor of an experiment, the devices it uses, and whether they are to be had. */
import { existsSync, statSync } from 'node:fs'
import { latencyMetrics } from '../../profiler/model/latency-metrics.ts'
import { portPattern } from '../../profiler/prometheus.ts'
import { findFieldFileFault, listFields, parseField } from '../../profiler/protocols/form-fields.ts'
import { type ProtocolName, protocolTable } from '../../profiler/protocols/protocol-table.ts'
import { findRequestFault } from '../../profiler/protocols/request-forms.ts'
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
import { defaults } from './names.ts'
import { limitsOf } from './parse-slo.ts'
import type { ExperimentEntries, Settings } from './schema/experiment-schema.ts'
import { servedFolder, weightsOf } from './served-model.ts'
import { serverUrlOf, urlTemplate } from './server-urls.ts'
import { isOwnPredictor } from './settings/kubernetes-settings.ts'
import type { Experiment, ModelSpec } from './types.ts'
import { parseDurationMs } from './units.ts'

/**
 * How a server is asked: as it is said, as a named server is, over gRPC where its URL says so, by
 * the protocol that streams where the SLO is about a stream, else by one of tensors.
 */
export function askedProtocol({
  predictor = {},
  slo = {},
}: Pick<ExperimentEntries, 'predictor' | 'slo'>): ProtocolName {
  if (predictor.protocol !== undefined) return predictor.protocol
  if (predictor.server !== undefined) return getServerProtocol(predictor.server)
  if (isGrpcUrl(serverUrlOf(predictor) ?? '')) return 'grpc-v2'
  const ofStream = limitsOf(slo).some(({ metric }) => latencyMetrics[metric].streamed)
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
  const kind = kindOf(context)
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
    // A model that is not known is said elsewhere: who names a server of language models has one.
    const unknown =
      server !== undefined &&
      isLanguageServer(server) &&
      knownArchitecture(model.architecture, own) === undefined
    const asked = builtinProtocol(report, protocol, model, own, built === 'gguf' || unknown)
    if (built === 'gguf') checkGguf(context, model)
    if (server !== undefined && !protocolTable[asked].streams)
      report(
        ['predictor', 'server'],
        `${server} serves language models, but ${model.name} is not one`,
        'remove the server, or use a language model',
      )
    if (acceptance !== undefined && (built === 'gguf' || !protocolTable[asked].streams))
      report(
        ['predictor', 'acceptance'],
        'acceptance applies only to a simulated or emulated language model',
        'leave it out',
      )
    const standsFor = server !== undefined && isLanguageServer(server) ? { standsFor: server } : {}
    const way = kvTransfer && { kvTransfer: transferOf(kvTransfer) }
    return {
      kind,
      model: model.name,
      engine: built,
      protocol: asked,
      ...standsFor,
      ...way,
      ...(acceptance !== undefined && { acceptance }),
      env,
      readyTimeoutS,
    }
  }
  const asked = askedProtocol(entries)
  if (protocolTable[asked].needsPath && path === undefined)
    report(
      ['predictor', 'protocol'],
      `protocol '${asked}' needs the path of the inference call`,
      'set path: /predict',
    )
  if (protocolTable[asked].needsPath) checkRequest(context)
  const common: RequestSettings = {
    model: model.name,
    protocol: asked,
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
    return { kind, from: entries.predictor?.from ?? [], model: model.name, protocol: asked }
  return kind === 'url' ? urlTemplate(context, common) : commandTemplate(context, common, model)
}

const transferOf = ({
  bandwidth,
  latency,
}: NonNullable<NonNullable<ExperimentEntries['predictor']>['kvTransfer']>) => ({
  ...(bandwidth !== undefined && { gbPerS: bandwidth }),
  ...(latency !== undefined && { latencyMs: latency }),
})

/** It runs for real or not at all: how fast llama.cpp is on a device is not modelled. */
function checkGguf({ entries, report, around }: Context, { path }: ModelSpec): void {
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
  const missing = backend === 'local' && !around.stored ? around.machine.missingGguf : undefined
  if (missing !== undefined)
    report(['model'], `GGUF models are served through llama.cpp: ${missing.what}`, missing.install)
}

function checkRequest({ entries, report, around }: Context): void {
  const { body, contentType, form } = entries.predictor ?? {}
  const at = ['predictor', form === undefined ? 'body' : 'form']
  if (form !== undefined && (body !== undefined || contentType !== undefined))
    report(
      at,
      `both a form and a ${body === undefined ? 'content type' : 'body'}`,
      'use only one of them: a form has its own content type',
    )
  const asWritten = (text: string) => replaceReferences(text, () => '1')
  const fault = form
    ? undefined
    : findRequestFault({ template: body && asWritten(body), contentType })
  if (fault !== undefined) report(at, fault.what, fault.hint)
  for (const [name, written] of listFields(form ?? {})) {
    const text = asWritten(written)
    const wrong = findRequestFault({ form: { [name]: text } })
    if (wrong !== undefined) {
      report(['predictor', 'form', name], wrong.what, wrong.hint)
      continue
    }
    const { kind, content } = parseField(text)
    // A stored experiment may outlive its files.
    const gone = around.onlyLookedAt && kind !== 'value' && !existsSync(content)
    const missing = gone ? undefined : findFieldFileFault(text)
    if (missing !== undefined) report(['predictor', 'form', name], missing.what, missing.hint)
  }
}

/** Keys that say how a predictor is asked, of any kind but the built-in one. */
const called = [
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
/** Keys that mean something for a kind; those that decide it come on top. */
const keysOf: Readonly<Record<PredictorTemplate['kind'], readonly string[]>> = {
  builtin: ['kind', 'engine', 'protocol', 'kvTransfer', 'acceptance', 'env', 'readyTimeout'],
  command: [...called, 'env', 'envNames', 'argFormat', 'files', 'prepare', 'reconfigure', 'cwd'],
  imported: ['kind', 'protocol'],
  url: [...called, 'urls', 'http2', 'ca', 'tls', 'insecureSkipVerify'],
}
const deciding = ['command', 'server', 'url', 'urls', 'from']

/**
 * The built-in predictor stands for the server that is named: a server of language models where
 * nothing is started for real.
 */
const isModelled = ({ predictor: { server, command } = {}, backend, devices }: Settings): boolean =>
  server !== undefined &&
  isLanguageServer(server) &&
  command === undefined &&
  (backend === 'simulated' || devices === 'emulated')

/** What the keys make it, and whether they go together. */
function kindOf({ entries, report }: Context): PredictorTemplate['kind'] {
  const given = entries.predictor ?? {}
  const { command, server } = given
  const url = serverUrlOf(given)
  const started = command !== undefined || (server !== undefined && !isModelled(entries))
  const inPod = isOwnPredictor(entries.kubernetes?.pod) && url === undefined
  const kind =
    started || inPod
      ? 'command'
      : url !== undefined
        ? 'url'
        : given.from !== undefined
          ? 'imported'
          : 'builtin'
  if (started && url !== undefined)
    report(
      ['predictor', 'url'],
      `a predictor with both a ${command === undefined ? 'server to start' : 'command'} and a URL`,
      'use only one of them',
    )
  if (given.kind !== undefined && given.kind !== kind)
    report(
      ['predictor', 'kind'],
      `kind ${given.kind}, but its keys make it ${kind}`,
      `a ${given.kind} predictor needs ${{ builtin: 'neither command nor url', command: "'command'", url: "'url'", imported: "'from'" }[given.kind]}`,
    )
  for (const key of Object.keys(given))
    if (!keysOf[kind].includes(key) && !deciding.includes(key))
      report(['predictor', key], `'${key}' does not apply to a ${kind} predictor`, 'remove it')
  return kind
}

function commandTemplate(
  context: Context,
  common: RequestSettings,
  model: ModelSpec,
): CommandTemplate {
  const { entries, report, folderOf, around } = context
  const { command, server, env, envNames, argFormat, files, prepare, reconfigure, cwd } =
    entries.predictor ?? {}
  if (isOwnPredictor(entries.kubernetes?.pod)) {
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
  const folder = cwd ?? folderOf(['predictor', 'command'])
  if (
    cwd !== undefined &&
    (isMissing(folder, around) || (existsSync(folder) && !statSync(folder).isDirectory()))
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
      ? weightsOf(server, model, report)
      : servedFolder(server, model, context))
  const started = command ?? (server === undefined ? [] : createServerCommand(server, modelPath!))
  const preset = server && {
    kind: server,
    modelPath: modelPath!,
    ...(protocolTable[common.protocol].transport === 'grpc' && { grpc: true }),
    ...(server === 'triton' && tritonMetrics(context.entries.metrics)),
  }
  if (reconfigure !== undefined && server === 'triton')
    report(
      ['predictor', 'reconfigure'],
      'tune sets the values of Triton through its model control',
      'leave it out',
    )
  const step = prepare && prepareStep(context, prepare)
  const told = {
    env,
    envNames,
    argFormat,
    files: texts,
    prepare: step,
    reconfigure,
    cwd: folder,
  }
  return { kind: 'command', command: started, server: preset, ...told, ...common }
}

/** On which port Triton's metrics are read: one of its own. */
function tritonMetrics(metrics: ExperimentEntries['metrics'] = []): { metricsPort?: number } {
  const port = metrics.map(({ from = '' }) => portPattern.exec(from)?.[1]).find(Boolean)
  return port === undefined ? {} : { metricsPort: Number(port) }
}

function prepareStep(
  { report, around }: Context,
  {
    command,
    env,
    inputs,
    timeout,
  }: NonNullable<NonNullable<ExperimentEntries['predictor']>['prepare']>,
): PrepareStep {
  for (const path of inputs ?? [])
    if (isMissing(path, around))
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
 * A language model is asked by the OpenAI protocol, anything else by a protocol of tensors. @param
 * generates one that the architecture's name does not tell
 */
function builtinProtocol(
  report: Context['report'],
  protocol: NonNullable<ExperimentEntries['predictor']>['protocol'],
  model: ModelSpec,
  own: CustomDevices,
  generates: boolean,
): BuiltinProtocol {
  const names: readonly BuiltinProtocol[] =
    generates || languageModelOf(model.architecture, own) ? spoken.prompts : spoken.tensors
  const found = names.find((name) => name === protocol)
  if (protocol !== undefined && found === undefined)
    report(
      ['predictor', 'protocol'],
      `the built-in predictor does not speak ${protocol} with ${model.name}`,
      `use ${names.join(', ')}`,
    )
  return found ?? names[0]!
}

/** Undefined also for an architecture that is not known: that is said elsewhere. */
export function languageModelOf(name: string, own: CustomDevices): Decoder | undefined {
  const architecture = knownArchitecture(name, own)
  return architecture?.kind === 'decoder' ? architecture : undefined
}

function knownArchitecture(name: string, own: CustomDevices): Architecture | undefined {
  try {
    return findArchitecture(name, own.architectures)
  } catch (error) {
    if (error instanceof DeviceModelError) return undefined
    throw error
  }
}

/** 'predictor.command[2]: unknown ...' of a template's own check, put where the key stands. */
export function reportTemplate({ report }: Context, problem: string): void {
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
 * The engine of the built-in predictor that uses a GPU of this machine; undefined: none can. ONNX
 * Runtime comes first, for it installs on today's CUDA.
 */
function gpuEngine(
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
  { entries, report, around }: Context,
  predictor: PredictorTemplate,
  model: ModelSpec,
): Experiment['devicesUsed'] {
  const { devices, backend } = entries
  const { gpus, slices = [], drivesGpus = () => true } = around.machine
  const runsAnywhere =
    predictor.kind === 'builtin' && (predictor.engine === 'onnx' || predictor.engine === 'gguf')
  const here =
    gpus.length + slices.length > 0 &&
    (predictor.kind !== 'builtin' || gpuEngine(predictor, model, drivesGpus) !== undefined)
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
  if (devices === 'gpu' && backend === 'local' && !here)
    report(
      ['devices'],
      'this machine has no GPU that a predictor can use',
      'run tune doctor for the reason, or use --devices emulated or cpu',
    )
  if (devices !== 'auto') return backend === 'simulated' && devices === 'gpu' ? 'emulated' : devices
  if (predictor.kind !== 'builtin') {
    const startedHere = predictor.kind === 'command' && backend === 'local' && !around.stored
    return asksForGpu(entries) || (startedHere && here) ? 'gpu' : 'cpu'
  }
  if (backend === 'kubernetes') return 'gpu'
  if (backend === 'local' && here) return 'gpu'
  // Emulating takes an architecture, which a file does not tell; the file itself runs anywhere.
  return backend === 'local' && runsAnywhere ? 'cpu' : 'emulated'
}

/** Whether the user chooses GPUs himself. */
export const asksForGpu = ({ space, pin }: Pick<Settings, 'space' | 'pin'>) =>
  Object.hasOwn(space ?? {}, 'gpu') || Object.hasOwn(pin ?? {}, 'gpu')

/**
 * The built-in predictor as it will be started. Real engines serve a user's own files under the
 * model's name; an emulated device, and a model built with seeded weights, go by the architecture.
 */
export function builtinFor(
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
        ? (gpuEngine(template, model, drivesGpus) ?? 'auto')
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
