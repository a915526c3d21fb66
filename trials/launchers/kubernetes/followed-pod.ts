/** A trial's pod from its creation to its end: its state, its log on disk, and how it ended. */
import type { V1Pod } from '@kubernetes/client-node'
import { LaunchError, type PredictorDeath } from '../../types.ts'
import { lastLines } from '../failure.ts'
import type { PredictorLog } from '../predictor-log.ts'
import type { Api } from './api.ts'
import { causeOfEnd, describeEnd, launchEnd } from './failures.ts'
import { describeLoss, type ExplainLoss } from './lost-pod.ts'
import { followLog } from './pod-log.ts'
import { type PodState, podState, withPullCause } from './pod-state.ts'
import type { PodWatch } from './pod-watch.ts'

/** How long the rest of the log of an ended container is waited for. */
const lastWordsMs = 3_000

export class FollowedPod {
  private readonly over = new AbortController()
  private reading: Promise<void> | undefined
  private unlisten: (() => void)[] = []
  /** Of its last known state. */
  private node: string | undefined

  /**
   * @param container name of the tuned one
   * @param builtin whether it is the built-in predictor, whose exit codes are known
   */
  constructor(
    private readonly api: Api,
    private readonly watch: PodWatch,
    readonly name: string,
    readonly container: string,
    readonly log: PredictorLog,
    private readonly builtin: boolean,
    private readonly explainLoss: ExplainLoss,
  ) {}

  get pod(): V1Pod | undefined {
    return this.watch.get(this.name)
  }

  readonly state = (): PodState => {
    const { pod } = this
    this.node = pod?.spec?.nodeName ?? this.node
    return pod
      ? podState(pod, this.container)
      : { kind: 'lost', what: 'the pod is gone: another program removed it' }
  }

  /** Follows the log into the file. Idempotent. */
  readLog(): void {
    const over = () => ['ended', 'lost'].includes(this.state().kind)
    this.reading ??= followLog(
      this.api,
      this.name,
      this.container,
      (chunk) => this.log.write(chunk, 'stdout'),
      over,
      this.over.signal,
    )
  }

  /** A final state as an error of the trial. */
  readonly endedAs = async (): Promise<Error> => {
    const now = withPullCause(
      this.state(),
      await this.watch.events.of(this.name, this.over.signal).catch(() => []),
    )
    const { log } = this
    if (now.kind === 'ended') {
      this.readLog()
      await this.lastWords()
      return launchEnd(now, log, this.builtin)
    }
    if (now.kind === 'broken')
      return new LaunchError(now.what, now.hint, log.path, now.final ? 'experiment' : undefined)
    if (now.kind === 'lost') {
      const { what, hint, final } = await describeLoss(this.explainLoss, this.node, now.what)
      return new LaunchError(what, hint, log.path, final)
    }
    return new LaunchError(`the pod changed back to ${now.kind}`, undefined, log.path)
  }

  /** Aborts once the pod no longer runs. */
  notRunning(): AbortSignal {
    const ended = new AbortController()
    this.listen(() => {
      if (this.state().kind !== 'running') ended.abort(new Error('the pod is no longer running'))
    })
    return ended.signal
  }

  /** Resolves when a pod that runs ends by itself; never, once `stop` was called. */
  died(): Promise<PredictorDeath> {
    return new Promise((tell) => {
      const look = () => {
        const now = this.state()
        if (this.over.signal.aborted || now.kind === 'running') return
        unlisten()
        if (now.kind !== 'ended') {
          const words = 'what' in now ? now.what : `the pod is ${now.kind} again`
          return void describeLoss(this.explainLoss, this.node, words).then(({ what }) =>
            tell({ what, outOfMemory: false, external: true }),
          )
        }
        void this.lastWords().then(() => {
          const cause = causeOfEnd(now, this.log, this.builtin)
          tell({
            what: `${describeEnd(now, cause)}${lastLines(this.log)}`,
            outOfMemory: cause.kind === 'out-of-memory',
          })
        })
      }
      const unlisten = this.listen(look)
      look()
    })
  }

  /** From now on the end of the pod is expected, and nothing is read any more. */
  stop(): void {
    this.over.abort(new Error('stopped'))
    for (const step of this.unlisten) step()
  }

  private listen(look: () => void): () => void {
    const unlisten = this.watch.listen(look)
    this.unlisten.push(unlisten)
    return unlisten
  }

  private lastWords = (): Promise<void> =>
    Promise.race([
      this.reading,
      new Promise<void>((resolve) => setTimeout(resolve, lastWordsMs).unref()),
    ])
}
