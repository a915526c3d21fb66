/** Which settings of the autoscaler lose no minute of the SLO, and which of those cost least. */
import type { Demand } from './demand.ts'
import { autoscaledFleet, type FleetOutcome, type Surroundings } from './fleet.ts'
import { defaultBehaviour, type HpaSettings } from './hpa.ts'
import type { FleetUnit } from './replica.ts'

export interface ScaledFleet {
  readonly settings: HpaSettings
  readonly outcome: FleetOutcome
}

/**
 * Shares of the target that is asked for: a lower one orders earlier, and leaves room while what
 * was ordered starts.
 */
const targetShares = [1, 0.85, 0.7, 0.55, 0.4]

/**
 * The cheapest settings under which the played demand loses no minute: with a target up to the one
 * given, as many replicas kept as it then takes, and the given pace or Kubernetes' own.
 * @param most replicas that keep the SLO without an autoscaler. @returns undefined where none cost
 * less than those: then nothing is to be scaled.
 */
export function losslessSettings(
  unit: FleetUnit,
  demand: Demand,
  given: HpaSettings,
  most: number,
  surroundings: Surroundings,
): ScaledFleet | undefined {
  let best: ScaledFleet | undefined
  const paces =
    given.behaviour === defaultBehaviour ? [defaultBehaviour] : [given.behaviour, defaultBehaviour]
  for (const behaviour of paces)
    for (const share of targetShares) {
      const targetRps = given.targetRps * share
      const play = (minReplicas: number): ScaledFleet => {
        const settings = { ...given, targetRps, minReplicas, behaviour }
        return { settings, outcome: autoscaledFleet(unit, demand, settings, surroundings) }
      }
      best = cheaper(
        best,
        fewestKept(play, given.minReplicas, most, best?.outcome.meanReplicas ?? most),
      )
    }
  return best && best.outcome.meanReplicas < most - 1e-9 ? withMost(best) : undefined
}

/**
 * By halves: more replicas kept lose fewer minutes. Those that cost no less than `price` replicas
 * all the time are not looked at.
 */
function fewestKept(
  play: (min: number) => ScaledFleet,
  least: number,
  most: number,
  price: number,
): ScaledFleet | undefined {
  let [low, high] = [least, Math.min(most, Math.ceil(price)) - 1]
  let found: ScaledFleet | undefined
  while (low <= high) {
    const middle = Math.floor((low + high) / 2)
    const played = play(middle)
    if (played.outcome.lostMinutes === 0) {
      found = played
      high = middle - 1
    } else low = middle + 1
  }
  return found
}

const cheaper = (a: ScaledFleet | undefined, b: ScaledFleet | undefined) =>
  a === undefined || (b !== undefined && b.outcome.meanReplicas < a.outcome.meanReplicas - 1e-9)
    ? b
    : a

/**
 * A quarter more than it ever asked for: the demand may be higher than the one played, and a
 * mistake has an end.
 */
const withMost = ({ settings, outcome }: ScaledFleet): ScaledFleet => ({
  settings: {
    ...settings,
    maxReplicas: Math.max(outcome.mostReplicas + 1, Math.ceil(1.25 * outcome.mostReplicas)),
  },
  outcome,
})
