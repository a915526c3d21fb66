/**
 * The built-in predictor. The steps of its start, in the order of `startPredictor`:
 *
 * 1. Delegate language models to their own predictors (`llm/`).
 * 2. Start the CPU workers (`cpu/cpu-pool.ts`) and the engines (`engines/engine-host.ts`).
 * 3. Listen on HTTP and, if configured, gRPC; requests are rejected until the models are loaded.
 * 4. Connect the loaded models with batchers (`server/served-model.ts`) and publish them
 *    (`server/repository.ts`).
 *
 * A request passes HTTP or gRPC, a CPU worker that decodes it, the batcher, an engine, and for a
 * large reply a CPU worker again. `stop` drains the requests in flight and ends all parts.
 */
import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { readText } from '../../profiler/bounded-reader.ts'
import { findArchitecture } from '../devices/architecture.ts'
import type { CustomDevices } from '../devices/custom-devices.ts'
import { CpuPool } from './cpu/cpu-pool.ts'
import type { EngineOptions } from './engine.ts'
import { type EngineHost, startEngines, sumUtilization } from './engines/engine-host.ts'
import type { ServedModelInfo } from './protocol/tensors.ts'
import type { RunningPredictor } from './running-predictor.ts'
import type { GrpcServer } from './server/grpc-server.ts'
import { PredictorMetrics } from './server/metrics.ts'
import { chooseVersions, ModelRepository, type ModelVersion } from './server/repository.ts'
import { ServedModel } from './server/served-model.ts'
import type { Settings } from './settings.ts'

/** Connections that may wait to be accepted: a burst of load opens many at once. */
const listenBacklog = 4096

/**
 * The settings of the start, overridden by other values.
 * @throws SettingsError
 */
type SettingsWith = (values: Readonly<Record<string, string>>) => Settings

/**
 * Starts the predictor. It listens while the models load, and is ready when this resolves.
 * @param settingsWith settings of later loads, where `modelControl` is explicit
 * @throws OutOfMemoryError, the listen error (`code` 'EADDRINUSE'), or the engine's error; all
 * parts have ended then
 */
export async function startPredictor(
  settings: Settings,
  settingsWith?: SettingsWith,
): Promise<RunningPredictor> {
  const { engine } = settings
  if (engine === 'gguf')
    return (await import('./llm/gguf/gguf-predictor.ts')).startGgufPredictor(settings)
  const own = await readCustomDevices(settings)
  if (engine === 'emulated') {
    const architecture = findArchitecture(settings.model, own.architectures)
    if (architecture.kind === 'decoder')
      return (await import('./llm/llm-predictor.ts')).startLlmPredictor(settings, architecture, own)
  }
  const versions = await chooseVersions(settings.modelPath, settings.versionPolicy)
  // Threads and processes start by themselves while this thread loads the web server.
  const pool = new CpuPool(settings.cpuCores)
  const starting = Promise.allSettled(
    versions.map((version) => startEngines(engine, createEngineOptions(settings, own, version))),
  )
  const { createServer } = await import('./server/http-server.ts')
  const metrics = new PredictorMetrics()
  const repository = new ModelRepository(settings.model)
  const maxBodyBytes = Math.round(settings.maxBodyMiB * 2 ** 20)
  const parts = { pool, repository, metrics, versions, own }
  let hosts: readonly EngineHost[] = []
  const load = async (modelSettings: Settings) => {
    hosts = await reloadPredictor(hosts, modelSettings, parts)
  }
  const server = createServer(repository, metrics, {
    maxBodyBytes,
    requestTimeoutS: settings.requestTimeoutS,
    ...(settings.modelControl === 'explicit' &&
      settingsWith && { load: (values) => load(settingsWith(values)) }),
  })
  let grpc: GrpcServer | undefined
  const end = async () => {
    const closed = server.close()
    // This answers the requests in flight with an error.
    await Promise.all([pool.close(), ...listStarted(await starting).map((host) => host.close())])
    const lastCall = setTimeout(() => server.server.closeAllConnections(), 500)
    await Promise.all([closed, grpc?.close()])
    clearTimeout(lastCall)
  }
  try {
    await server.listen({ host: settings.host, port: settings.port, backlog: listenBacklog })
    if (settings.grpcPort !== undefined) {
      const { startGrpcServer } = await import('./server/grpc-server.ts')
      grpc = await startGrpcServer(repository, settings.host, settings.grpcPort, {
        maxBodyBytes,
        requestTimeoutS: settings.requestTimeoutS,
      })
    }
    const outcomes = await starting
    const failure = outcomes.find((outcome) => outcome.status === 'rejected')
    if (failure) throw failure.reason
    hosts = listStarted(outcomes)
    await serve(hosts, settings, parts)
  } catch (error) {
    await end()
    throw error
  }
  metrics.watchDevices(
    () => sumUtilization(hosts.map((host) => host.utilization())),
    sum(hosts.map((host) => host.devices)),
  )
  metrics.watchQueue(() => repository.waiting)

  let stopped: Promise<void> | undefined
  const { port } = server.server.address() as AddressInfo
  const { device, provenance } = hosts[0]!.loaded
  return {
    url: `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${port}`,
    port,
    ...(grpc && { grpcPort: grpc.port }),
    model: settings.model,
    device,
    provenance,
    died: Promise.race([
      ...hosts.map((host) => host.died),
      pool.died.then((what) => ({ what, outOfMemory: false })),
    ]),
    stop: () => {
      stopped ??= waitAtMost(repository.drain(), settings.drainTimeoutMs).then(end)
      return stopped
    },
  }
}

/** The parts that stay when other settings are loaded. */
interface Parts {
  readonly pool: CpuPool
  readonly repository: ModelRepository
  readonly metrics: PredictorMetrics
  readonly versions: readonly ModelVersion[]
  readonly own: CustomDevices
}

async function serve(
  hosts: readonly EngineHost[],
  settings: Settings,
  { pool, repository, metrics, versions }: Parts,
): Promise<void> {
  const infos = versions.map((version, i) => describeServed(settings, version, hosts[i]!))
  await pool.serve(infos)
  const policy = {
    maxBatchSize: settings.batchSize,
    maxDelayMs: settings.maxDelayMs,
    queueLimit: settings.queueLimit,
  }
  repository.serve(
    infos.map(
      (info, i) =>
        new ServedModel(info, hosts[i]!, pool, policy, metrics.of(info.name, info.version)),
    ),
  )
}

/**
 * Reloads with other settings in the same process, after the requests in flight. Rejects like the
 * start; then no model is served until a later load succeeds.
 */
async function reloadPredictor(
  hosts: readonly EngineHost[],
  settings: Settings,
  parts: Parts,
): Promise<readonly EngineHost[]> {
  await parts.repository.unload()
  await parts.pool.resize(settings.cpuCores)
  const others = await Promise.all(
    hosts.map((host, i) =>
      host.reload!(createEngineOptions(settings, parts.own, parts.versions[i]!)),
    ),
  )
  await serve(others, settings, parts)
  return others
}

const listStarted = (
  outcomes: readonly PromiseSettledResult<EngineHost>[],
): readonly EngineHost[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))

const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0)

/**
 * GPUs and architectures of the user's files.
 * @throws YamlFileError, or the read error
 */
async function readCustomDevices({
  gpuCatalogue,
  architectureFile,
  model,
}: Settings): Promise<CustomDevices> {
  if (gpuCatalogue === undefined && architectureFile === undefined)
    return { gpus: [], architectures: [] }
  const { parseGpus, readArchitecture } = await import('../devices/custom-devices.ts')
  return {
    gpus:
      gpuCatalogue === undefined ? [] : parseGpus(readText(gpuCatalogue, 'document'), gpuCatalogue),
    architectures:
      architectureFile === undefined
        ? []
        : [readArchitecture(architectureFile, architectureFile, model)],
  }
}

function createEngineOptions(
  settings: Settings,
  own: CustomDevices,
  { path }: ModelVersion,
): EngineOptions {
  const {
    model,
    batchSize,
    sequenceLength,
    precision,
    gpu,
    gpuMemoryPercent,
    gpuSharing,
    migProfile,
  } = settings
  const { instances, warmUpBatch, cpuThreads, seed } = settings
  return {
    model,
    ...(path !== undefined && { modelPath: path }),
    ...(gpu !== undefined && { gpu }),
    ...(migProfile !== undefined && { migProfile }),
    own,
    batchSize,
    sequenceLength,
    precision,
    gpuMemoryPercent,
    gpuSharing,
    instances,
    warmUpBatch,
    cpuThreads,
    seed,
  }
}

function describeServed(
  settings: Settings,
  { version, path }: ModelVersion,
  { loaded }: EngineHost,
): ServedModelInfo {
  const { task, inputs, outputs } = loaded.info
  const width = task === 'text' ? inputs[0]?.shape[1] : undefined
  // In the model's folder, or next to its file.
  const vocabulary =
    path === undefined
      ? undefined
      : [path, dirname(path)].map((folder) => join(folder, 'vocab.txt')).find(existsSync)
  return {
    name: settings.model,
    version,
    task,
    inputs,
    outputs,
    // A user's own model may fix its length.
    sequenceLength: width !== undefined && width > 0 ? width : settings.sequenceLength,
    ...(vocabulary !== undefined && { vocabularyPath: vocabulary }),
    provenance: loaded.provenance,
    maxItems: settings.queueLimit,
  }
}

async function waitAtMost(work: Promise<void>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  })
  await Promise.race([work, limit])
  clearTimeout(timer)
}
