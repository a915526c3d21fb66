/** A trial's pod from its creation to its end: its state, its log on disk, and how it ended. */
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type PredictorDeath } from '../../../types.ts'
import { readLastLines } from '../../failure.ts'
import type { PredictorLog } from '../../predictor-log.ts'
import type { Api } from '../api/api.ts'
import { followLog } from '../watch/pod-log.ts'
import { addPullCause, type PodState, readPodState } from '../watch/pod-state.ts'
import type { PodWatch } from '../watch/pod-watch.ts'
import { createEndError, describeEnd, diagnoseEnd } from './failures.ts'
import { describeLoss, type ExplainLoss } from './lost-pod.ts'

/** How long to wait for the rest of an ended container's log. */
const logTailTimeoutMs = 3_000

export class FollowedPod {
  private readonly stopped = new AbortController()
  private reading: Promise<void> | undefined
  private unlisten: (() => void)[] = []
  /** Node of its last known state. */
  private node: string | undefined

  /**
   * @param container name of the tuned container
   * @param isBuiltin whether it is the built-in predictor, whose exit codes are known
   */
  constructor(
    private readonly api: Api,
    private readonly watch: PodWatch,
    readonly name: string,
    readonly container: string,
    readonly log: PredictorLog,
    private readonly isBuiltin: boolean,
    private readonly explainLoss: ExplainLoss,
  ) {}

  get pod(): V1Pod | undefined {
    return this.watch.get(this.name)
  }

  readonly state = (): PodState => {
    const { pod } = this
    this.node = pod?.spec?.nodeName ?? this.node
    return pod
      ? readPodState(pod, this.container)
      : { kind: 'lost', what: 'the pod is gone: another program removed it' }
  }

  /** Follows the log into the file. Idempotent. */
  readLog(): void {
    const hasStopped = () => ['ended', 'lost'].includes(this.state().kind)
    this.reading ??= followLog(
      this.api,
      this.name,
      this.container,
      (chunk) => this.log.write(chunk, 'stdout'),
      hasStopped,
      this.stopped.signal,
    )
  }

  /** Converts a final state into the error of the trial. */
  readonly explainEnd = async (): Promise<Error> => {
    const now = addPullCause(
      this.state(),
      await this.watch.events.listEvents(this.name, this.stopped.signal).catch(() => []),
    )
    const { log } = this
    if (now.kind === 'ended') {
      this.readLog()
      await this.waitForLogTail()
      return createEndError(now, log, this.isBuiltin)
    }
    if (now.kind === 'broken')
      return new LaunchError(now.what, now.hint, log.path, now.final ? 'experiment' : undefined)
    if (now.kind === 'lost') {
      const { what, hint, final } = await describeLoss(this.explainLoss, this.node, now.what)
      return new LaunchError(what, hint, log.path, final)
    }
    return new LaunchError(`the pod changed back to ${now.kind}`, undefined, log.path)
  }

  /** Creates a signal that aborts once the pod no longer runs. */
  createEndSignal(): AbortSignal {
    const ended = new AbortController()
    this.listen(() => {
      if (this.state().kind !== 'running') ended.abort(new Error('the pod is no longer running'))
    })
    return ended.signal
  }

  /** Resolves when the running pod ends by itself; never after `stop`. */
  waitForDeath(): Promise<PredictorDeath> {
    return new Promise((resolve) => {
      const check = () => {
        const now = this.state()
        if (this.stopped.signal.aborted || now.kind === 'running') return
        unlisten()
        if (now.kind !== 'ended') {
          const words = 'what' in now ? now.what : `the pod is ${now.kind} again`
          return void describeLoss(this.explainLoss, this.node, words).then(({ what }) =>
            resolve({ what, outOfMemory: false, external: true }),
          )
        }
        void this.waitForLogTail().then(() => {
          const cause = diagnoseEnd(now, this.log, this.isBuiltin)
          resolve({
            what: `${describeEnd(now, cause)}${readLastLines(this.log)}`,
            outOfMemory: cause.kind === 'out-of-memory',
          })
        })
      }
      const unlisten = this.listen(check)
      check()
    })
  }

  /** Stops following: the end of the pod is expected from now on. */
  stop(): void {
    this.stopped.abort(new Error('stopped'))
    for (const step of this.unlisten) step()
  }

  private listen(check: () => void): () => void {
    const unlisten = this.watch.listen(check)
    this.unlisten.push(unlisten)
    return unlisten
  }

  private waitForLogTail = (): Promise<void> =>
    Promise.race([
      this.reading,
      new Promise<void>((resolve) => setTimeout(resolve, logTailTimeoutMs).unref()),
    ])
}
