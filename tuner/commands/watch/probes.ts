/**
 * Requests of the experiment's own kind, few and at random times, straight to pods that serve: how
 * long each takes, as production's requests do there.
 */
import type { V1Pod } from '@kubernetes/client-node'
import { HttpLoadGenerator, type Slo, type Target } from '../../../profiler/index.ts'
import { countedRun } from '../../../profiler/slo.ts'
import type { Api } from '../../../trials/launchers/kubernetes/api.ts'
import { wayTo } from '../../../trials/launchers/kubernetes/reach.ts'
import { untilServing } from '../../../trials/launchers/readiness.ts'
import { protocolOf } from '../../backends/predictor-protocol.ts'
import type { Experiment } from '../../experiment/types.ts'

/** Until a ready pod has given its first good answer. */
const firstAnswerMs = 60_000

interface ProbesOptions {
  readonly api: Api
  readonly experiment: Experiment
  readonly port: number
  readonly rateRps: number
  /** What the way to the pod adds, ms. */
  readonly detourMs: number
}

export class Probes {
  private readonly generator = new HttpLoadGenerator()
  /** By the pod's uid. */
  private readonly ways = new Map<string, { readonly target: Target; close(): Promise<void> }>()
  private windows = 0

  constructor(private readonly options: ProbesOptions) {}

  /**
   * A window of probes on one pod: what the SLO counts of each, ms, NaN where it failed. Empty
   * where this machine was late with its own requests, which says nothing of the pod.
   * @throws what `untilServing` throws where the pod gives no good answer; GeneratorError
   */
  async window(pod: V1Pod, durationS: number, signal: AbortSignal): Promise<readonly number[]> {
    const { rateRps, detourMs, experiment } = this.options
    const { target } = await this.wayTo(pod, signal)
    const load = {
      kind: 'open',
      rateRps,
      arrivals: { kind: 'poisson' },
      durationS,
      seed: experiment.seed + ++this.windows,
    } as const
    const run = countedRun(await this.generator.play(target, load, signal), experiment.slo)
    return run.latenessP99Ms > mostLateMs(experiment.slo)
      ? []
      : Array.from(run.latencyMs, (ms) => ms - detourMs)
  }

  async close(): Promise<void> {
    await this.generator.close()
    for (const way of this.ways.values()) await way.close()
  }

  private async wayTo({ metadata, status }: V1Pod, signal: AbortSignal) {
    const uid = metadata!.uid!
    const known = this.ways.get(uid)
    if (known) return known
    const { api, experiment, port } = this.options
    const reach =
      process.env.KUBERNETES_SERVICE_HOST !== undefined ||
      experiment.kubernetes?.loadFrom === 'here'
        ? 'direct'
        : 'port-forward'
    const way = await wayTo(api, reach, { name: metadata!.name!, ip: status!.podIP!, port })
    const { model, load } = experiment
    const endpoint = {
      protocol: protocolOf(experiment, way.url).protocol,
      url: way.url,
      model: model.name,
      payload: load.payload,
      runsAlready: true,
    }
    const target = await untilServing(endpoint, firstAnswerMs, signal).catch(
      async (error: unknown) => {
        await way.close()
        throw error
      },
    )
    const made = { target, close: () => way.close() }
    this.ways.set(uid, made)
    return made
  }
}

const mostLateMs = ({ limitMs }: Slo): number => Math.max(3, 0.05 * limitMs)
