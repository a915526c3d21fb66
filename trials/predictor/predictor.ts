import type { AddressInfo } from 'node:net'
import { CpuPool } from './cpu-pool.ts'
import type { EngineOptions, Utilization } from './engine.ts'
import { type EngineDeath, type EngineHost, startEngines } from './engine-host.ts'
import { PredictorMetrics } from './metrics.ts'
import type { ServedModelInfo } from './protocol/messages.ts'
import { ModelRepository, type ModelVersion, versionsToServe } from './repository.ts'
import { ServedModel } from './served-model.ts'
import { createServer } from './server.ts'
import type { Settings } from './settings.ts'

/** A predictor that serves. */
export interface RunningPredictor {
  readonly url: string
  readonly port: number
  readonly model: string
  readonly device: string
  readonly provenance: 'measured' | 'emulated'
  /** Resolves when a part of it ends by itself; never rejects. The predictor is of no use then: stop it. */
  readonly died: Promise<EngineDeath>
  /** Refuses new requests, answers those in flight within the drain time-out, and ends everything. Idempotent. */
  stop(): Promise<void>
}

/**
 * Starts the built-in predictor: it listens at once, and is ready when this resolves.
 * Rejects with OutOfMemoryError, with the listen error (`code` 'EADDRINUSE'), or what the engine says; nothing is left then.
 */
export async function startPredictor(settings: Settings): Promise<RunningPredictor> {
  const metrics = new PredictorMetrics()
  const repository = new ModelRepository(settings.model)
  const server = createServer(repository, metrics, { maxBodyBytes: Math.round(settings.maxBodyMiB * 2 ** 20) })
  const versions = await versionsToServe(settings.modelPath, settings.versionPolicy)
  const hosts: EngineHost[] = []
  const pool = new CpuPool(settings.cpuCores)
  const end = async () => {
    await server.close()
    await Promise.all([pool.close(), ...hosts.map((host) => host.close())])
  }
  try {
    await server.listen({ host: settings.host, port: settings.port })
    const loading = await Promise.allSettled(versions.map((version) => startEngines(settings.engine, engineOptions(settings, version))))
    for (const outcome of loading) if (outcome.status === 'fulfilled') hosts.push(outcome.value)
    const failure = loading.find((outcome) => outcome.status === 'rejected')
    if (failure) throw failure.reason
    const infos = versions.map(({ version }, i) => servedInfo(settings, version, hosts[i]!))
    await pool.serve(infos)
    const policy = { maxBatchSize: settings.batchSize, maxDelayMs: settings.maxDelayMs, queueLimit: settings.queueLimit }
    repository.serve(infos.map((info, i) => new ServedModel(info, hosts[i]!, pool, policy, metrics.of(info.name, info.version))))
  } catch (error) {
    await end()
    throw error
  }
  metrics.watchDevice(
    () => utilizationOf(hosts),
    hosts.reduce((sum, host) => sum + host.instances.length, 0),
  )
  metrics.watchQueue(() => repository.waiting)

  let stopped: Promise<void> | undefined
  const { port } = server.server.address() as AddressInfo
  const { device, provenance } = hosts[0]!.loaded
  return {
    url: `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${port}`,
    port,
    model: settings.model,
    device,
    provenance,
    died: Promise.race([...hosts.map((host) => host.died), pool.died.then((what) => ({ what, outOfMemory: false }))]),
    stop: () => {
      stopped ??= within(repository.drain(), settings.drainTimeoutMs).then(end)
      return stopped
    },
  }
}

function engineOptions(settings: Settings, version: ModelVersion): EngineOptions {
  const { model, batchSize, sequenceLength, precision, gpu, gpuMemoryPercent, gpuSharing, instances, warmUpBatch, cpuThreads, seed } =
    settings
  return {
    model,
    ...(version.path !== undefined && { modelPath: version.path }),
    ...(gpu !== undefined && { gpu }),
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

function servedInfo(settings: Settings, version: string, { loaded }: EngineHost): ServedModelInfo {
  const { task, inputs, outputs } = loaded.info
  return {
    name: settings.model,
    version,
    task,
    inputs,
    outputs,
    sequenceLength: settings.sequenceLength,
    provenance: loaded.provenance,
    maxItems: settings.queueLimit,
  }
}

const utilizationOf = (hosts: readonly EngineHost[]): Utilization | undefined => {
  const known = hosts.map((host) => host.utilization()).filter((utilization) => utilization !== undefined)
  if (known.length === 0) return undefined
  return { busyMs: known.reduce((sum, u) => sum + u.busyMs, 0), memoryMiB: known.reduce((sum, u) => sum + u.memoryMiB, 0) }
}

async function within(work: Promise<void>, limitMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, limitMs)
  })
  await Promise.race([work, limit])
  clearTimeout(timer)
}
