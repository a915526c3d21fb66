/**
 * What `tune watch --apply` would change, checked by the server before anything is: a dry run of
 * every object, and whose the Deployment is.
 */
import { isDeepStrictEqual } from 'node:util'
import type { Api } from '../../../trials/launchers/kubernetes/api.ts'
import {
  type AppliedKind,
  applyObject,
  existingObject,
  FieldConflict,
} from '../../../trials/launchers/kubernetes/field-manager.ts'
import { type Json, manager } from '../../../trials/launchers/kubernetes/manifests.ts'
import { laidOnto, ownedFields } from '../../../trials/launchers/kubernetes/owned-fields.ts'
import { UserError, usageError } from '../../exit-codes.ts'
import {
  canaryName,
  canaryObjects,
  type DeploymentObject,
  experimentAnnotation,
  nameOf,
  toApply,
  trialAnnotation,
  withFigures,
} from './canary-objects.ts'
import { existingCanary, isRolledOut } from './rollout.ts'
import { type Undoing, undoing } from './undo.ts'

export interface PlanAsked {
  readonly experiment: string
  readonly from: number
  readonly to: { readonly trial: number; readonly replicas: number }
  /** The new spec's objects, and the user's own where it is that with the tuned values put in. */
  readonly after: readonly Json[]
  readonly before?: readonly Json[]
  readonly takeOver: readonly string[]
}

export interface ApplyPlan {
  readonly name: string
  readonly live: DeploymentObject
  /** What is sent, the Deployment last. */
  readonly objects: readonly Json[]
  /** The Deployment as it would be. */
  readonly whole: DeploymentObject
  readonly configMaps: readonly Json[]
  /** New pods, and so a canary. */
  readonly newPods: boolean
  readonly undo: readonly Undoing[]
  readonly notes: readonly string[]
}

/** Fields that a change is taken back in. */
const fields: Readonly<Record<AppliedKind, readonly (readonly string[])[]>> = {
  ConfigMap: [['data']],
  HorizontalPodAutoscaler: [['spec']],
  Deployment: [
    ['metadata', 'annotations', trialAnnotation],
    ['metadata', 'annotations', experimentAnnotation],
    ['spec', 'replicas'],
    ['spec', 'template'],
  ],
}

/** Names of leases and of what a canary owns: one for each Deployment, whoever changes it. */
export const leaseIdOf = (deployment: string): string => `canary-${deployment}`

/** @throws UserError where it may not be changed, or not now */
export async function applyPlan(
  api: Api,
  asked: PlanAsked,
  signal: AbortSignal,
): Promise<ApplyPlan> {
  const { deployment, others } = toApply(asked.after, asked.before)
  const name = nameOf(deployment)
  const live = await existingObject<DeploymentObject>(api, 'Deployment', name, signal)
  if (live === undefined)
    throw new UserError(
      `there is no Deployment ${name} in namespace ${api.namespace}`,
      'name its namespace with --namespace, or its manifest with --patch',
    )
  checkItsOurs(live, asked)
  await existingCanary(api, name, signal)
  if (!isRolledOut(live))
    throw new UserError(
      `Deployment ${name} is not at rest: a rollout is under way, or replicas are not available`,
      'look again once it is',
    )
  const present = await Promise.all(
    others.map(async (object) => ({
      object,
      live: await existingObject<Json>(api, object.kind as AppliedKind, nameOf(object), signal),
    })),
  )
  const scaler = present.find((one) => one.object.kind === 'HorizontalPodAutoscaler')
  // Of a manifest that is patched only what differs is given: what was applied before stands beside
  // it, or it would be taken away.
  const besideOwn = (object: Json, before: Json | undefined): Json =>
    asked.before === undefined || before === undefined
      ? object
      : (laidOnto(ownedFields(before, manager), object) as Json)
  const changes = present
    .filter((one) => one.object.kind === 'ConfigMap' || one.live !== undefined)
    .map((one) => ({
      kind: one.object.kind as AppliedKind,
      object: besideOwn(one.object, one.live),
      live: one.live,
    }))
  const wanted = wantedDeployment(
    besideOwn(deployment, live as unknown as Json),
    live,
    asked,
    scaler?.live !== undefined,
  )
  changes.push({ kind: 'Deployment', object: wanted, live: live as unknown as Json })
  const dryRun = { dryRun: true, takeOver: asked.takeOver, signal }
  const dryRuns: {
    readonly kind: AppliedKind
    readonly after: Json
    readonly live: Json | undefined
  }[] = []
  for (const { kind, object, live: before } of changes)
    dryRuns.push({
      kind,
      after: await conflictsTold(() => applyObject(api, object, dryRun)),
      live: before,
    })
  const whole = dryRuns.at(-1)!.after as unknown as DeploymentObject
  const configMaps = changes.filter(({ kind }) => kind === 'ConfigMap').map(({ object }) => object)
  const newPods = !isDeepStrictEqual(live.spec.template, whole.spec.template)
  // Admission and policies look at the canary too.
  const nobody = { name: leaseIdOf(name), uid: '00000000-0000-0000-0000-000000000000' }
  if (newPods)
    for (const object of canaryObjects(whole, configMaps, nobody, leaseIdOf(name)))
      await conflictsTold(() => applyObject(api, object, dryRun))
  return {
    ...{ name, live, whole, configMaps, newPods, objects: changes.map(({ object }) => object) },
    undo: dryRuns.flatMap(({ kind, after, live: before }) =>
      undoing(kind, fields[kind], before, after),
    ),
    notes:
      scaler !== undefined && scaler.live === undefined
        ? [`there is no HorizontalPodAutoscaler ${nameOf(scaler.object)}, and none is made`]
        : [],
  }
}

/**
 * With the replicas that are asked for; an autoscaler's are left to it, and where they were
 * `tune`'s kept as they are: a field that is let go falls back to one.
 */
function wantedDeployment(
  object: Json,
  live: DeploymentObject,
  { experiment, to, before }: PlanAsked,
  scaled: boolean,
): Json {
  const replicasIn = (one: Json | undefined) =>
    (one?.spec as { readonly replicas?: number } | undefined)?.replicas
  const own = () =>
    replicasIn(ownedFields(live as unknown as Json, manager)) === undefined
      ? undefined
      : live.spec.replicas
  const replicas = scaled ? own() : before === undefined ? to.replicas : replicasIn(object)
  return withFigures(object, { experiment, trial: to.trial, replicas })
}

function checkItsOurs(
  { metadata: { name, annotations = {} } }: DeploymentObject,
  { experiment, from, before }: PlanAsked,
): void {
  const [written, trial] = [annotations[experimentAnnotation], annotations[trialAnnotation]]
  if (before === undefined && written !== experiment)
    throw new UserError(
      `Deployment ${name} is not touched: ${written === undefined ? 'no spec of tune wrote it' : `it was written from experiment ${written}`} (annotation ${experimentAnnotation})`,
      'give --patch the manifest that is deployed, or apply the spec of what is watched first',
    )
  if (
    trial !== undefined &&
    (written === undefined || written === experiment) &&
    trial !== String(from)
  )
    throw usageError(
      `Deployment ${name} is of trial ${trial}, and trial ${from} is watched`,
      `give --trial ${trial}`,
    )
}

/** @throws UserError that names what others hold */
export async function conflictsTold<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!(error instanceof FieldConflict)) throw error
    throw new UserError(
      `nothing is changed: ${error.message}`,
      `these fields are in other hands; to let tune have those that it tunes: ${error.managers.map((one) => `--take-over ${one}`).join(' ')}`,
    )
  }
}

/** What would be done, a line each. */
export function planText(
  { name, live, whole, newPods, undo, notes }: ApplyPlan,
  { namespace, takeOver }: { readonly namespace: string; readonly takeOver: readonly string[] },
): string[] {
  const n = live.spec.replicas ?? 1
  return [
    ...(newPods
      ? [
          `canary: Deployment ${canaryName(name)} in namespace ${namespace}, one replica beside ${n}: it gets 1 of ${n + 1} requests where all are treated alike`,
        ]
      : ['no canary: its pods stay as they are']),
    ...undo
      .filter(({ path }) => path[0] !== 'metadata')
      .map(
        (one) =>
          `then: ${one.kind} ${one.name}, ${one.path.join('.')}${one.path.at(-1) === 'replicas' ? ` ${one.before} -> ${one.after}` : ''}`,
      ),
    ...(takeOver.length > 0 ? [`fields may be taken from: ${takeOver.join(', ')}`] : []),
    ...((whole.spec.replicas ?? 1) < n
      ? [`fewer replicas than now: ${whole.spec.replicas} of ${n}`]
      : []),
    ...notes,
  ]
}
