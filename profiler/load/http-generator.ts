import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Load } from '../model/load.ts'
import type { LoadGenerator } from '../model/load-generator.ts'
import type { LoadPoint } from '../model/load-point.ts'
import type { LoadRun } from '../model/load-run.ts'
import type { Slo } from '../model/slo.ts'
import type { HttpTarget, Target } from '../model/target.ts'
import { forkEntry } from '../module-entry.ts'
import { GeneratorError } from '../profiler-errors.ts'
import { checkLoad } from './check-load.ts'
import type { FromChild, ToChild } from './child-messages.ts'
import { findAllowedCores, pinIfPossible, readAllowedCores } from './cpu-affinity.ts'
import { summariseRun } from './load-point.ts'
import { watchMachine } from './machine-watch.ts'

/** Last characters of the child's error output that a failure quotes. Assumed. */
const maxStderrChars = 4000
/** Minimum window to watch the machine: the CPU clocks of Linux tick every 10 ms. */
const minWatchedS = 0.2

/**
 * Loads HTTP servers from its own child process, which starts with the first load and lasts until
 * `close`.
 */
export class HttpLoadGenerator implements LoadGenerator {
  readonly name = 'http'
  private child: ChildProcess | undefined
  private stderr = ''
  private sentTarget: HttpTarget | undefined
  /** Cores to which the child process is pinned. */
  private cores = readAllowedCores(process.pid)
  private isBusy = false

  async run(target: Target, load: Load, slo: Slo, signal: AbortSignal): Promise<LoadPoint> {
    return summariseRun(await this.play(target, load, signal), slo)
  }

  async play(target: Target, load: Load, signal: AbortSignal): Promise<LoadRun> {
    if (target.kind !== 'http')
      throw new GeneratorError('the HTTP load generator was given a target that is not HTTP')
    if (target.bodies.length === 0)
      throw new GeneratorError(
        'no request bodies to send',
        'the payload pool must hold at least one body',
      )
    checkLoad(load)
    signal.throwIfAborted()
    if (this.isBusy) throw new GeneratorError('the load generator is already playing a load')
    this.isBusy = true
    try {
      const child = await this.startChild()
      if (this.sentTarget !== target) {
        // Functions cannot be sent to another process.
        const { serverPids: _, findFault: __, observeLoad: ___, sample, ...data } = target
        this.send(child, {
          type: 'target',
          target: { ...data, ...(sample && { sample: { bodies: sample.bodies } }) },
        })
        this.sentTarget = target
      }
      await this.avoidCores(target.serverPids?.() ?? [], child)
      const stopWatch =
        load.durationS < minWatchedS
          ? undefined
          : watchMachine(() => target.serverPids?.() ?? [], [child.pid!])
      const recordLoad = target.observeLoad?.()
      const { answerSamples, ...run } = await this.playInChild(child, load, signal)
      recordLoad?.(run)
      for (const { body, answer } of answerSamples ?? []) target.sample?.onSample?.(body, answer)
      return stopWatch === undefined ? run : { ...run, machineWait: stopWatch() }
    } finally {
      this.isBusy = false
    }
  }

  /**
   * Keeps the generator off the cores of the server, where that leaves any. Otherwise the kernel
   * often wakes it on the server's core, where it waits and sends late.
   */
  private async avoidCores(serverPids: readonly number[], { pid }: ChildProcess): Promise<void> {
    const allowedCores = readAllowedCores(process.pid)
    const serverCores = findAllowedCores(serverPids)
    const freeCores = allowedCores.filter((core) => !serverCores.includes(core))
    const cores = freeCores.length > 0 ? freeCores : allowedCores
    if (cores.join() === this.cores.join()) return
    this.cores = cores
    await pinIfPossible(pid!, cores)
  }

  async close(): Promise<void> {
    const child = this.child
    this.child = undefined
    this.sentTarget = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }

  private async startChild(): Promise<ChildProcess> {
    if (this.child?.connected) return this.child
    const child = forkEntry('./child', import.meta.url)
    this.child = child
    this.sentTarget = undefined
    this.cores = readAllowedCores(process.pid)
    this.stderr = ''
    child.stderr?.on('data', (chunk: Buffer) => {
      this.stderr = (this.stderr + chunk.toString()).slice(-maxStderrChars)
    })
    await this.awaitMessage(child)
    return child
  }

  private async playInChild(
    child: ChildProcess,
    load: Load,
    signal: AbortSignal,
  ): Promise<LoadRun> {
    signal.throwIfAborted()
    const abort = () => this.send(child, { type: 'abort' })
    signal.addEventListener('abort', abort, { once: true })
    try {
      const nextMessage = this.awaitMessage(child)
      this.send(child, { type: 'play', load })
      const answer = await nextMessage
      if (answer.type === 'played') return answer.run
      if (answer.type === 'failed')
        throw new GeneratorError(`the load generator failed: ${answer.message}`)
      signal.throwIfAborted()
      throw new GeneratorError(`the load generator answered '${answer.type}' to a load`)
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  private send(child: ChildProcess, message: ToChild): void {
    if (child.connected) child.send(message)
  }

  /** Resolves with the next message of the child; rejects when it ends or cannot run. */
  private awaitMessage(child: ChildProcess): Promise<FromChild> {
    return new Promise((resolve, reject) => {
      const settle = () => {
        child.off('message', onMessage)
        child.off('exit', onExit)
        child.off('error', onError)
      }
      const onMessage = (message: unknown) => {
        settle()
        resolve(message as FromChild)
      }
      const onExit = (code: number | null, killedBy: string | null) => {
        settle()
        reject(
          new GeneratorError(
            `the load generator's process ended (${killedBy ?? `exit code ${code}`}) ${this.stderr}`.trim(),
          ),
        )
      }
      const onError = (error: Error) => {
        settle()
        reject(new GeneratorError(`the load generator's process could not run: ${error.message}`))
      }
      child.on('message', onMessage)
      child.on('exit', onExit)
      child.on('error', onError)
    })
  }
}
