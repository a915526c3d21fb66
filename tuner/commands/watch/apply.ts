/**
 * `tune watch --apply`: a proposal brought to a cluster by canary. One replica of the new
 * Deployment runs beside the old one, is probed, and is removed; where it kept the SLO the
 * Deployment is changed, judged as long again, and put back where it does not. Whatever ends this
 * in between steps back.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { V1Pod } from '@kubernetes/client-node'
import type { Slo } from '../../../profiler/types.ts'
import {
  type CanaryQuestion,
  type CanaryVerdict,
  judgeCanary,
} from '../../../reports/watch/canary.ts'
import { builtinImage } from '../../../trials/launchers/builtin-image.ts'
import { type Api, connect } from '../../../trials/launchers/kubernetes/api.ts'
import { applyObject, existingObject } from '../../../trials/launchers/kubernetes/field-manager.ts'
import { ExperimentLease } from '../../../trials/launchers/kubernetes/lease.ts'
import { labelNames, type Owner } from '../../../trials/launchers/kubernetes/manifests.ts'
import { type Kind, removeObjects } from '../../../trials/launchers/kubernetes/sweep.ts'
import type { Experiment } from '../../experiment/types.ts'
import {
  type ApplyPlan,
  applyPlan,
  conflictsTold,
  leaseIdOf,
  type PlanAsked,
  planText,
} from './apply-plan.ts'
import { type ApplyRecord, type Change, keepRecord, readRecord } from './apply-record.ts'
import { canaryLabel, canaryName, canaryObjects, type DeploymentObject } from './canary-objects.ts'
import { Probes } from './probes.ts'
import { isReady, livePods, ofCanary, podTrouble, removeCanary, rolledOut } from './rollout.ts'
import { undo } from './undo.ts'

export interface ApplySettings {
  readonly namespace?: string
  readonly question: Omit<CanaryQuestion, 'slo'>
  readonly probeRps: number
  readonly takeOver: readonly string[]
  readonly dryRun: boolean
}

export interface ApplyContext {
  readonly settings: ApplySettings
  readonly db: string
  /** The watch's name. */
  readonly watch: string
  readonly experiment: Experiment
  readonly slo: Slo
  readonly detourMs: number
  /** Of the container that serves, where it names no port. */
  readonly port: number
  /**
   * Why production, or the new pods alone as production's own metrics have them, miss the SLO since
   * then; undefined where they do not.
   */
  readonly productionMissed: (
    sinceS: number,
    pods: string,
    signal: AbortSignal,
  ) => Promise<string | undefined>
  readonly say: (line: string) => void
  /** Seconds since 1970. */
  readonly nowS: () => number
}

export interface ApplyOutcome {
  /** `planned`: of a dry run. */
  readonly kind: 'kept' | 'stepped back' | 'nothing' | 'planned'
  readonly trial: number
  readonly text: string
}

/** Stepping back is done whatever was interrupted, and does not wait for ever. */
const stepBackMs = 10 * 60_000
const kinds: readonly Kind[] = ['jobs', 'configmaps', 'leases']

/** @throws UserError, ApiError, LaunchError where another tuner changes the Deployment; the signal's reason, once it has stepped back */
export async function applyProposal(
  context: ApplyContext,
  asked: Omit<PlanAsked, 'takeOver'>,
  signal: AbortSignal,
): Promise<ApplyOutcome> {
  const { settings, say } = context
  const api = await connect(settings.namespace)
  try {
    const plan = await applyPlan(api, { ...asked, takeOver: settings.takeOver }, signal)
    const trial = asked.to.trial
    for (const line of planText(plan, { namespace: api.namespace, takeOver: settings.takeOver }))
      say(line)
    if (settings.dryRun)
      return {
        kind: 'planned',
        trial,
        text: 'the server accepts every object; nothing was changed',
      }
    if (plan.undo.every(({ path }) => path[0] === 'metadata'))
      return { kind: 'nothing', trial, text: 'the cluster has it already' }
    const { name: deployment } = plan
    const change: Change = {
      ...{ phase: 'canary', namespace: api.namespace, deployment, from: asked.from, to: trial },
      ...{ startedAt: new Date().toISOString(), port: context.port, undo: [] },
    }
    return await held(api, deployment, signal, (owner) =>
      new Changing(api, context, change).run(plan, owner, signal),
    )
  } finally {
    api.close()
  }
}

/**
 * What a process that ended left of a change: a canary is removed; a Deployment that was changed
 * and not judged is judged now.
 * @param back to put it back in any case, also where it was kept
 */
export async function goOn(
  context: ApplyContext,
  left: Change,
  back: boolean,
  signal: AbortSignal,
): Promise<ApplyOutcome> {
  const api = await connect(left.namespace)
  try {
    return await held(api, left.deployment, signal, () =>
      new Changing(api, context, left).goOn(back, signal),
    )
  } finally {
    api.close()
  }
}

/**
 * Nobody else changes the Deployment meanwhile; what this makes is removed, by the cluster itself
 * where this process is gone.
 */
async function held<T>(
  api: Api,
  deployment: string,
  signal: AbortSignal,
  work: (owner: Owner) => Promise<T>,
): Promise<T> {
  const id = leaseIdOf(deployment)
  const lease = new ExperimentLease({ api, experimentId: id, image: builtinImage })
  try {
    const owner = await lease.owner(signal)
    const keep = new Set(await lease.names())
    await removeObjects(api, `${labelNames.experiment}=${id}`, { keep, kinds, signal })
    await removeCanary(api, deployment, signal)
    return await work(owner)
  } finally {
    if (await lease.end()) await removeObjects(api, `${labelNames.experiment}=${id}`, { kinds })
  }
}

type Pods = (signal: AbortSignal) => Promise<readonly V1Pod[]>

class Changing {
  constructor(
    private readonly api: Api,
    private readonly context: ApplyContext,
    private change: Change,
  ) {}

  async run(plan: ApplyPlan, owner: Owner, signal: AbortSignal): Promise<ApplyOutcome> {
    const { say } = this.context
    try {
      await this.keep({ phase: 'canary' })
      if (plan.newPods) {
        const verdict = await this.canary(plan, owner, signal)
        if (verdict.kind !== 'keeps') return await this.steppedBack(`its canary ${words(verdict)}`)
        say(`the canary keeps the SLO: ${verdict.text}`)
      }
      await this.promote(plan, signal)
      return await this.judgePromoted(signal)
    } catch (error) {
      say(
        signal.aborted
          ? 'interrupted: stepping back'
          : `stepping back: ${(error as Error).message}`,
      )
      await this.takeBack()
      throw error
    }
  }

  async goOn(back: boolean, signal: AbortSignal): Promise<ApplyOutcome> {
    const { phase, deployment, to } = this.change
    const { say } = this.context
    if (back || phase === 'canary') {
      const left = await this.takeBack()
      const what =
        phase === 'canary'
          ? `the canary of trial ${to} is removed, Deployment ${deployment} was not changed`
          : `Deployment ${deployment} is put back`
      return { kind: 'stepped back', trial: to, text: [what, ...left].join('; ') }
    }
    say(`going on: Deployment ${deployment} was changed to trial ${to} and not judged yet`)
    try {
      return await this.judgePromoted(signal)
    } catch (error) {
      await this.takeBack()
      throw error
    }
  }

  private async canary(plan: ApplyPlan, owner: Owner, signal: AbortSignal): Promise<CanaryVerdict> {
    const { api } = this
    const name = canaryName(plan.name)
    const pods: Pods = (given) => livePods(api, ofCanary(plan.name), given)
    try {
      for (const object of canaryObjects(plan.whole, plan.configMaps, owner, leaseIdOf(plan.name)))
        await applyObject(api, object, { signal })
      const trouble = await rolledOut(api, name, pods, signal)
      return trouble === undefined
        ? await this.judged(pods, name, signal)
        : { kind: 'misses', text: trouble }
    } finally {
      await removeCanary(api, plan.name, AbortSignal.timeout(stepBackMs))
    }
  }

  private async promote(plan: ApplyPlan, signal: AbortSignal): Promise<void> {
    const { api } = this
    const now = await existingObject<DeploymentObject>(api, 'Deployment', plan.name, signal)
    if (JSON.stringify(now?.spec.template) !== JSON.stringify(plan.live.spec.template))
      throw new Error(
        `Deployment ${plan.name} was changed by somebody else while its canary was judged`,
      )
    await this.keep({ phase: 'promoting', undo: plan.undo })
    const { takeOver } = this.context.settings
    for (const object of plan.objects)
      await conflictsTold(() => applyObject(api, object, { takeOver, signal }))
    await this.keep({ phase: 'judged' })
    this.context.say(`Deployment ${plan.name} is changed; waiting for its rollout`)
  }

  private async judgePromoted(signal: AbortSignal): Promise<ApplyOutcome> {
    const { deployment, to } = this.change
    const { matchLabels = {} } =
      (await existingObject<DeploymentObject>(this.api, 'Deployment', deployment, signal))?.spec
        .selector ?? {}
    const selector = [
      ...Object.entries(matchLabels).map(([key, value]) => `${key}=${value}`),
      `!${canaryLabel}`,
    ].join(',')
    const before = new Set(
      (await livePods(this.api, selector, signal))
        .filter(isReady)
        .map(({ metadata }) => metadata?.uid),
    )
    const pods: Pods = (given) => livePods(this.api, selector, given)
    const newOnes: Pods = async (given) =>
      (await pods(given)).filter(({ metadata }) => !before.has(metadata?.uid))
    const trouble = await rolledOut(this.api, deployment, newOnes, signal)
    const verdict: CanaryVerdict =
      trouble === undefined
        ? await this.judged(pods, deployment, signal)
        : { kind: 'misses', text: trouble }
    if (verdict.kind !== 'keeps') return this.steppedBack(words(verdict))
    await this.keep({ phase: 'kept' })
    return {
      kind: 'kept',
      trial: to,
      text: `Deployment ${deployment} serves trial ${to} and keeps the SLO: ${verdict.text}`,
    }
  }

  /** Probes pod after pod, a window each, until there is a verdict. */
  private async judged(pods: Pods, name: string, signal: AbortSignal): Promise<CanaryVerdict> {
    const { settings, slo, experiment, detourMs, say, productionMissed } = this.context
    const { question, probeRps } = settings
    const probes = new Probes({
      api: this.api,
      experiment,
      port: this.context.port,
      rateRps: probeRps,
      detourMs,
    })
    const windowS = Math.min(10, Math.max(1, question.leastS / 6))
    say(
      `judging ${name} by ${probeRps} probes/s for ${question.leastS} s at least, ${question.mostS} s at most`,
    )
    const latencyMs: number[] = []
    const startedMs = performance.now()
    const sinceS = this.context.nowS()
    try {
      for (let turn = 0; ; turn++) {
        const now = await pods(signal)
        const trouble = now.map(podTrouble).find((one) => one !== undefined)
        if (trouble !== undefined) return { kind: 'misses', text: trouble }
        const ready = now.filter(isReady)
        if (ready.length === 0) await sleep(1000, undefined, { signal })
        else latencyMs.push(...(await probes.window(ready[turn % ready.length]!, windowS, signal)))
        const missed = await productionMissed(sinceS, name, signal)
        if (missed !== undefined) return { kind: 'misses', text: missed }
        const verdict = judgeCanary(
          { latencyMs, seconds: (performance.now() - startedMs) / 1000 },
          { ...question, slo },
        )
        if (verdict.kind !== 'undecided') return verdict
      }
    } catch (error) {
      signal.throwIfAborted()
      return { kind: 'in doubt', text: (error as Error).message }
    } finally {
      await probes.close()
    }
  }

  private async steppedBack(why: string): Promise<ApplyOutcome> {
    const { to, deployment, phase } = this.change
    const left = await this.takeBack(why)
    const what =
      phase === 'canary'
        ? `Deployment ${deployment} was not changed`
        : `Deployment ${deployment} is put back`
    return {
      kind: 'stepped back',
      trial: to,
      text: [`trial ${to}: ${why}`, what, ...left].join('; '),
    }
  }

  /**
   * What was changed is as before, unless somebody else has changed it since. @param why it is not
   * to be tried again for a while
   */
  private async takeBack(why?: string): Promise<readonly string[]> {
    const { phase, undo: changes, deployment, to } = this.change
    const { db, watch, say, nowS } = this.context
    const signal = AbortSignal.timeout(stepBackMs)
    const left = phase === 'canary' ? [] : await undo(this.api, changes, signal)
    const { steppedBack } = await readRecord(db, watch, nowS())
    const record: ApplyRecord = {
      steppedBack:
        why === undefined
          ? steppedBack
          : [...steppedBack, { trial: to, at: new Date().toISOString(), why }],
    }
    await keepRecord(db, watch, record)
    if (phase !== 'canary' && left.length === 0) {
      say(`Deployment ${deployment} is put back; waiting for its rollout`)
      const trouble = await rolledOut(this.api, deployment, async () => [], signal)
      if (trouble !== undefined) return [`it does not come up again: ${trouble}`]
    }
    return left
  }

  private async keep(next: Partial<Change>): Promise<void> {
    this.change = { ...this.change, ...next }
    const { db, watch, nowS } = this.context
    await keepRecord(db, watch, { ...(await readRecord(db, watch, nowS())), change: this.change })
  }
}

const words = (verdict: CanaryVerdict): string =>
  verdict.kind === 'undecided'
    ? 'is undecided'
    : verdict.kind === 'in doubt'
      ? `leaves doubt: ${verdict.text}`
      : `does not keep the SLO: ${'text' in verdict ? verdict.text : ''}`
