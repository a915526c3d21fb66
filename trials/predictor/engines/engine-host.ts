/**
 * Runs engine instances in processes or threads of their own, and reports their end. The states of
 * a connection to one:
 *
 *     started ──load──► loading ──loaded──► ready ◄──► computing one batch
 *                          │                  │              │
 *                          └── error ─────────┴── ends ──────┴──► ended: all calls fail
 *
 * `died` reports an end that `close` did not cause, and an engine that runs out of memory.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { Worker } from 'node:worker_threads'
import { resolveProcessEntry, resolveThreadEntry } from '../../../profiler/module-entry.ts'
import { getMachineNowMs } from '../../clock.ts'
import {
  type EngineOptions,
  listLargeBuffers,
  OutOfMemoryError,
  type Tensors,
  type Utilization,
} from '../engine.ts'
import type { FromEngine, LoadedEngine, ToEngine } from './engine-messages.ts'
import { engines, type TensorEngineName } from './engine-registry.ts'

interface BatchResult {
  readonly outputs: Tensors
  /** Time from sending, or from the previous answer of the same engine, to the answer. */
  readonly computeMs: number
}

export interface EngineDeath {
  readonly what: string
  readonly outOfMemory: boolean
}

/** A slot for a batch: an engine instance, or a turn on the shared device. */
export interface EngineInstance {
  infer(inputs: Tensors): Promise<BatchResult>
}

export interface EngineHost {
  readonly loaded: LoadedEngine
  readonly instances: readonly EngineInstance[]
  /** Devices that compute at the same time: one per instance, or one that all share. */
  readonly devices: number
  /** Sum over the devices; undefined if the engine cannot measure it. */
  utilization(): Utilization | undefined
  /** Resolves when an engine ends unexpectedly; never rejects. */
  readonly died: Promise<EngineDeath>
  /**
   * Reloads a thread's engine with other options, and resolves with its new host. This host is
   * unusable afterwards, even if the reload fails. Absent if instances are processes.
   */
  reload?(options: EngineOptions): Promise<EngineHost>
  close(): Promise<void>
}

/**
 * Starts `options.instances` instances and resolves when all have loaded.
 * Rejects with OutOfMemoryError or the engine's error, having ended them all.
 */
export async function startEngines(
  engine: TensorEngineName,
  options: EngineOptions,
): Promise<EngineHost> {
  const { place } = engines[engine]
  const connect = place === 'thread' ? connectThread : connectProcess
  const connections = Array.from(
    { length: place === 'thread' ? 1 : options.instances },
    () => new EngineConnection(connect()),
  )
  try {
    return await loadHost(connections, engine, options)
  } catch (error) {
    await Promise.all(connections.map((connection) => connection.close()))
    throw error
  }
}

async function loadHost(
  connections: readonly EngineConnection[],
  engine: TensorEngineName,
  options: EngineOptions,
): Promise<EngineHost> {
  const loaded = await Promise.all(
    connections.map((connection) => connection.load(engine, options)),
  )
  const threads = engines[engine].place === 'thread'
  const slots = threads ? options.instances : 1
  return {
    loaded: loaded[0]!,
    instances: connections.flatMap((connection) => Array.from({ length: slots }, () => connection)),
    devices: connections.length,
    utilization: () => sumUtilization(connections.map((connection) => connection.utilization)),
    died: Promise.race(connections.map((connection) => connection.died)),
    ...(threads && { reload: (next: EngineOptions) => loadHost(connections, engine, next) }),
    close: async () =>
      void (await Promise.all(connections.map((connection) => connection.close()))),
  }
}

/** Undefined if none is known. */
export function sumUtilization(
  parts: readonly (Utilization | undefined)[],
): Utilization | undefined {
  const known = parts.filter((part) => part !== undefined)
  if (known.length === 0) return undefined
  return {
    busyMs: known.reduce((sum, u) => sum + u.busyMs, 0),
    memoryMiB: known.reduce((sum, u) => sum + u.memoryMiB, 0),
  }
}

/** The common interface of a process and a thread. */
interface Channel {
  post(message: ToEngine): void
  onMessage(listener: (message: FromEngine) => void): void
  /**
   * Calls `listener` with a description of the end, and whether the system killed it, as it does
   * when memory runs out.
   */
  onEnd(listener: (what: string, killed: boolean) => void): void
  kill(): void
}

function connectThread(): Channel {
  const worker = new Worker(resolveThreadEntry('./engine-worker', import.meta.url), {
    execArgv: [],
  })
  return {
    post: (message) =>
      worker.postMessage(message, message.type === 'infer' ? listLargeBuffers(message.inputs) : []),
    onMessage: (listener) => worker.on('message', listener),
    onEnd: (listener) => {
      worker.once('error', (error) => listener(`engine thread failed: ${error.message}`, false))
      worker.once('exit', (code) => listener(`engine thread ended with code ${code}`, false))
    },
    kill: () => void worker.terminate(),
  }
}

function connectProcess(): Channel {
  const { path, execArgv } = resolveProcessEntry('./engine-worker', import.meta.url)
  const child: ChildProcess = fork(path, [], {
    execArgv,
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  return {
    post: (message) => void child.send(message),
    onMessage: (listener) => child.on('message', (message) => listener(message as FromEngine)),
    onEnd: (listener) => {
      child.once('error', (error) => listener(`engine process failed: ${error.message}`, false))
      child.once('exit', (code, signal) =>
        signal === null
          ? listener(`engine process ended with code ${code}`, false)
          : listener(
              `engine process was killed by ${signal}${signal === 'SIGKILL' ? ', probably because memory ran out' : ''}`,
              signal === 'SIGKILL',
            ),
      )
    },
    kill: () => void child.kill('SIGKILL'),
  }
}

interface PendingCall {
  readonly sentAtMs: number
  resolve(result: BatchResult): void
  reject(error: Error): void
}

class EngineConnection implements EngineInstance {
  readonly #channel: Channel
  readonly #pending = new Map<number, PendingCall>()
  #calls = 0
  #answeredAtMs = 0
  #closing = false
  #ended: string | undefined
  #loading: { resolve(loaded: LoadedEngine): void; reject(error: Error): void } | undefined
  #onEnded: (() => void) | undefined
  utilization: Utilization | undefined
  readonly died: Promise<EngineDeath>

  constructor(channel: Channel) {
    this.#channel = channel
    this.died = new Promise((resolve) => {
      channel.onMessage((message) => this.#receive(message, resolve))
      channel.onEnd((what, killed) => {
        if (this.#ended !== undefined) return
        this.#ended = what
        this.#failAll(killed ? new OutOfMemoryError(what) : new Error(what))
        this.#onEnded?.()
        if (!this.#closing) resolve({ what, outOfMemory: killed })
      })
    })
  }

  load(engine: TensorEngineName, options: EngineOptions): Promise<LoadedEngine> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(new Error(this.#ended))
      this.#loading = { resolve, reject }
      this.#channel.post({ type: 'load', engine, options })
    })
  }

  infer(inputs: Tensors): Promise<BatchResult> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(new Error(this.#ended))
      const call = this.#calls++
      const sentAtMs = getMachineNowMs()
      this.#pending.set(call, { sentAtMs, resolve, reject })
      this.#channel.post({ type: 'infer', call, inputs, sentAtMs })
    })
  }

  /** Requests the engine to close; kills it after two seconds. */
  close(): Promise<void> {
    this.#closing = true
    if (this.#ended !== undefined) return Promise.resolve()
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.#channel.kill(), 2000)
      this.#onEnded = () => {
        clearTimeout(timer)
        resolve()
      }
      this.#channel.post({ type: 'close' })
    })
  }

  #receive(message: FromEngine, died: (death: EngineDeath) => void): void {
    switch (message.type) {
      case 'loaded':
        this.#loading?.resolve(message.loaded)
        this.#loading = undefined
        return
      case 'result': {
        this.utilization = message.utilization
        const pending = this.#settle(message.call)
        const now = getMachineNowMs()
        if (pending)
          pending.resolve({
            outputs: message.outputs,
            computeMs: now - Math.max(pending.sentAtMs, this.#answeredAtMs),
          })
        this.#answeredAtMs = now
        return
      }
      case 'error': {
        const error = message.outOfMemory
          ? new OutOfMemoryError(message.message)
          : new Error(message.message)
        if (message.call === undefined) {
          this.#loading?.reject(error)
          this.#loading = undefined
          return
        }
        this.#settle(message.call)?.reject(error)
        if (message.outOfMemory) died({ what: message.message, outOfMemory: true })
        return
      }
      case 'closed':
    }
  }

  #settle(call: number): PendingCall | undefined {
    const pending = this.#pending.get(call)
    this.#pending.delete(call)
    return pending
  }

  #failAll(error: Error): void {
    this.#loading?.reject(error)
    this.#loading = undefined
    for (const pending of this.#pending.values()) pending.reject(error)
    this.#pending.clear()
  }
}
