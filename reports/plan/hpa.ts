/**
 * How many replicas Kubernetes' HorizontalPodAutoscaler (autoscaling/v2) asks for, tick by tick:
 * its tolerance, its stabilisation windows and its policies (kubernetes/kubernetes,
 * pkg/controller/podautoscaler/horizontal.go and replica_calculator.go). KEDA makes such an
 * autoscaler and adds the way to zero.
 */
interface ScalingPolicy {
  readonly type: 'Percent' | 'Pods'
  readonly value: number
  readonly periodSeconds: number
}

interface ScalingRules {
  readonly stabilizationWindowSeconds: number
  /** Max: the policy that changes most decides. */
  readonly selectPolicy?: 'Max'
  readonly policies: readonly ScalingPolicy[]
}

/** As `behavior` of its manifest. */
export interface ScalingBehaviour {
  readonly scaleUp: ScalingRules
  readonly scaleDown: ScalingRules
}

/** Of an autoscaler that says nothing of its own. */
export const defaultBehaviour: ScalingBehaviour = {
  scaleUp: {
    stabilizationWindowSeconds: 0,
    policies: [
      { type: 'Percent', value: 100, periodSeconds: 15 },
      { type: 'Pods', value: 4, periodSeconds: 15 },
    ],
  },
  scaleDown: {
    stabilizationWindowSeconds: 300,
    policies: [{ type: 'Percent', value: 100, periodSeconds: 15 }],
  },
}

/**
 * Doubles at most once in the time that a replica takes to start, so that what was ordered serves
 * before more is ordered; gives one up, or a tenth, in as long, and only after ten times that (at
 * least five minutes) without need. Undefined, for the autoscaler's defaults, where the start was
 * not measured.
 */
export function behaviourOf(launchSeconds: number | undefined): ScalingBehaviour | undefined {
  if (launchSeconds === undefined || !(launchSeconds > 0)) return undefined
  const periodSeconds = within(15, launchSeconds, 1800)
  return {
    scaleUp: {
      stabilizationWindowSeconds: 0,
      policies: [{ type: 'Percent', value: 100, periodSeconds }],
    },
    scaleDown: {
      stabilizationWindowSeconds: within(300, 10 * launchSeconds, 3600),
      selectPolicy: 'Max',
      policies: [
        { type: 'Pods', value: 1, periodSeconds },
        { type: 'Percent', value: 10, periodSeconds },
      ],
    },
  }
}

/** The bounds are the API's own. */
const within = (least: number, seconds: number, most: number): number =>
  Math.min(most, Math.max(least, Math.ceil(seconds)))

export interface HpaSettings {
  /** Requests per second that it means each replica to have. */
  readonly targetRps: number
  readonly minReplicas: number
  readonly maxReplicas: number
  readonly behaviour: ScalingBehaviour
  /**
   * Requests that replicas answered, as the specs count them, which are never more than they can
   * do; or those that came, counted before them.
   */
  readonly counts: 'answered' | 'came'
}

/** Seconds between two looks. */
export const syncSeconds = 15
/** It leaves the number alone where the rate is this near to its target. */
export const tolerance = 0.1
/**
 * KEDA: how often it looks whether there is anything to do for none, and how long none must be
 * asked for before the last one goes.
 */
const pollingSeconds = 30
const cooldownSeconds = 300

interface Change {
  readonly at: number
  readonly by: number
}

/** One autoscaler over time. */
export class Hpa {
  readonly #settings: HpaSettings
  readonly #recommended: { at: number; replicas: number }[] = []
  #changes: Change[] = []
  #busyAt = 0

  constructor(settings: HpaSettings) {
    this.#settings = settings
  }

  /** The longest that anything it saw still counts, seconds. */
  get memorySeconds(): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const periods = [...scaleUp.policies, ...scaleDown.policies].map((p) => p.periodSeconds)
    return Math.max(
      cooldownSeconds,
      scaleUp.stabilizationWindowSeconds,
      scaleDown.stabilizationWindowSeconds,
      ...periods,
    )
  }

  /** @param seen requests per second, of all replicas together. @param current replicas, those that start among them. */
  replicas(at: number, seen: number, current: number): number {
    const { minReplicas, maxReplicas } = this.#settings
    if (Number.isNaN(seen)) return current
    if (seen > 1e-9) this.#busyAt = at
    if (current === 0) return this.#awake(at, seen)
    if (minReplicas === 0 && at - this.#busyAt >= cooldownSeconds)
      return this.#changed(at, current, 0)
    const wished = Math.min(maxReplicas, Math.max(minReplicas, 1, this.#wish(seen, current)))
    const stable = this.#stabilised(at, wished, current)
    return this.#changed(at, current, this.#allowed(at, stable, current))
  }

  #awake(at: number, seen: number): number {
    const { minReplicas } = this.#settings
    if (minReplicas > 0) return this.#changed(at, 0, minReplicas)
    return seen > 1e-9 && at % pollingSeconds < syncSeconds ? this.#changed(at, 0, 1) : 0
  }

  #wish(seen: number, current: number): number {
    const { targetRps } = this.#settings
    if (Math.abs(seen / (targetRps * current) - 1) <= tolerance) return current
    return Math.ceil(seen / targetRps - 1e-9)
  }

  #stabilised(at: number, wished: number, current: number): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const kept = Math.max(scaleUp.stabilizationWindowSeconds, scaleDown.stabilizationWindowSeconds)
    this.#recommended.push({ at, replicas: wished })
    while (this.#recommended[0]!.at <= at - kept && this.#recommended.length > 1)
      this.#recommended.shift()
    let [up, down] = [wished, wished]
    for (const { at: then, replicas } of this.#recommended) {
      if (then > at - scaleUp.stabilizationWindowSeconds) up = Math.min(up, replicas)
      if (then > at - scaleDown.stabilizationWindowSeconds) down = Math.max(down, replicas)
    }
    return Math.min(down, Math.max(up, current))
  }

  #allowed(at: number, wanted: number, current: number): number {
    const { scaleUp, scaleDown } = this.#settings.behaviour
    const before = (seconds: number) =>
      current - this.#changes.reduce((sum, c) => (c.at > at - seconds ? sum + c.by : sum), 0)
    if (wanted > current) {
      const limits = scaleUp.policies.map(({ type, value, periodSeconds }) => {
        const from = before(periodSeconds)
        return type === 'Pods' ? from + value : Math.ceil(from * (1 + value / 100))
      })
      return Math.max(current, Math.min(wanted, Math.max(...limits)))
    }
    const limits = scaleDown.policies.map(({ type, value, periodSeconds }) => {
      const from = before(periodSeconds)
      return type === 'Pods' ? from - value : Math.floor(from * (1 - value / 100))
    })
    return Math.min(current, Math.max(wanted, Math.min(...limits)))
  }

  #changed(at: number, from: number, to: number): number {
    if (to !== from) {
      this.#changes = this.#changes.filter((c) => c.at > at - this.memorySeconds)
      this.#changes.push({ at, by: to - from })
    }
    return to
  }
}
