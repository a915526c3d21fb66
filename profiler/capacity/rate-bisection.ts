import { failsTooOften, keeps } from '../slo.ts'
import type { LoadPoint } from '../types.ts'
import type { Effort } from './effort.ts'
import { between, type Searched } from './known-capacity.ts'
import { failuresOf, type Session } from './session.ts'

/** A window lasts this many answers: shorter ones end before the server has filled. */
const answersPerWindow = 4
/** Requests of a window, where the time allows it. */
const requestsPerWindow = 60
/** Ratio of the first missed to the last held rate that is narrow enough. */
const narrow = 1.08
/** Windows in a row that the generator spoiled until it is taken to be the limit. */
const mostDisturbed = 3

/** Answers over the time that the window took with its last answer. */
const answeredRps = (point: LoadPoint, answerS: number): number => (point.requests - point.errors) / (point.seconds + answerS)

/**
 * Capacity for answers that take seconds, streamed ones: open windows several answers long, their rate doubled or halved until the SLO is
 * both held and missed, then bisected. No model of the server is behind it. The interval spans the last held and the first missed rate.
 */
export async function rateBisection(session: Session, effort: Effort, idle: LoadPoint, seed: number): Promise<Searched> {
  const { slo } = session
  const answerS = (idle.stream?.e2e.p90Ms ?? idle.p90Ms) / 1000
  let held = 0
  let missed = Number.POSITIVE_INFINITY
  let disturbed = 0
  /** While every window that missed did so by failed requests. */
  let refused: LoadPoint | undefined
  let slow = false
  let saturationRps = idle.achievedRps
  const finish = (outcome: Searched['outcome'], detail?: string): Searched => ({ outcome, ...between(held, missed), saturationRps, detail })
  const ended = (outcome: 'converged' | 'budget', detail?: string): Searched =>
    held === 0 && refused !== undefined && !slow ? finish('errors', failuresOf(refused)) : finish(outcome, detail)

  for (let window = 0, rateRps = 2 / answerS; missed / held > narrow; window++) {
    const wanted = Math.max(effort.windowS, answersPerWindow * answerS, Math.min(requestsPerWindow / rateRps, effort.budgetS / 6))
    const seconds = Math.min(wanted, Math.max(effort.windowS, effort.budgetS))
    if (window > 0 && session.spentS + seconds > effort.budgetS)
      return ended(
        'budget',
        `the SLO held at ${held.toFixed(2)} req/s${missed < Number.POSITIVE_INFINITY ? ` and not at ${missed.toFixed(2)}` : ''} when the time was up`,
      )
    const { point } = await session.open(rateRps, seconds, seed + window, 'search')
    saturationRps = Math.max(saturationRps, answeredRps(point, answerS))
    if (await session.died(point)) return finish('server-died', `nothing listens any more: ${failuresOf(point)}`)
    if (keeps(point, slo)) held = rateRps
    else if (point.generatorSaturated && point.sloMs - point.latenessP99Ms <= slo.limitMs) {
      // Late sends count as latency: what holds holds all the same, and a miss that they explain is measured again.
      if (++disturbed === mostDisturbed)
        return finish('generator-limit', 'the load generator could not hold the rate: the server may do more')
      continue
    } else {
      missed = rateRps
      if (failsTooOften(point, slo)) refused = point
      else slow = true
    }
    disturbed = 0
    rateRps = missed === Number.POSITIVE_INFINITY ? 2 * held : held === 0 ? missed / 2 : Math.sqrt(held * missed)
  }
  return ended('converged')
}
