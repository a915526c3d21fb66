/**
 * Requests to the emulated predictor that an experiment recommends, in virtual time: as fast as its
 * trials had it, then slower.
 */
import { createSimulatedBackend } from '../../../../backends/simulated-backend.ts'
import { reopenExperiment } from '../../reopen-experiment.ts'

export interface PlayedRequest {
  /** Answered, seconds since 1970. */
  readonly atS: number
  readonly latencyMs: number
}

export interface Part {
  readonly hours: number
  /** Factor by which all its times are longer. */
  readonly slowness: number
}

/**
 * In order of their answers.
 * @param startS when the first part begins, seconds since 1970
 */
export async function playedRequests(
  db: string,
  rateRps: number,
  startS: number,
  parts: readonly Part[],
): Promise<PlayedRequest[]> {
  const { experiment, recommendation } = await reopenExperiment(undefined, { db })
  const { signal } = new AbortController()
  const predictor = await createSimulatedBackend(experiment).launcher.launch(
    recommendation.best!.configuration,
    1,
    signal,
  )
  if (predictor.target.kind !== 'virtual') throw new TypeError('not a predictor in virtual time')
  const { server } = predictor.target
  let fromS = startS
  return parts.flatMap(({ hours, slowness }, i) => {
    // A server whose every step takes s times as long is the same one in time that is stretched by
    // s.
    const load = {
      kind: 'open',
      rateRps: rateRps * slowness,
      arrivals: { kind: 'poisson' },
      seed: 7 + i,
    } as const
    const { sentMs, latencyMs } = server.play({ ...load, durationS: (hours * 3600) / slowness })
    const from = fromS
    fromS += hours * 3600
    return Array.from(sentMs, (sent, k) => ({
      atS: from + ((sent + latencyMs[k]!) * slowness) / 1000,
      latencyMs: latencyMs[k]! * slowness,
    })).sort((a, b) => a.atS - b.atS)
  })
}
