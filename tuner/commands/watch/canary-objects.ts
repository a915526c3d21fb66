/**
 * From manifests to what is applied: the Deployment as it is to be, what its pods need, and the
 * canary that runs beside it first.
 */
import { isDeepStrictEqual } from 'node:util'
import { isAppliedKind } from '../../../trials/launchers/kubernetes/field-manager.ts'
import {
  type Json,
  labelsOf,
  type Owner,
  ownerReferences,
} from '../../../trials/launchers/kubernetes/manifests.ts'
import { mergedBy } from '../../../trials/launchers/kubernetes/owned-fields.ts'
import { usageError } from '../../exit-codes.ts'

/**
 * On the canary's pods, beside the labels that a Service finds them by: the name of the Deployment
 * that they stand beside.
 */
export const canaryLabel = 'tune/canary'
/**
 * On what was applied: which measurement stands behind it. Specs have them too
 * (reports/specs/manifest.ts).
 */
export const trialAnnotation = 'tune/trial'
export const experimentAnnotation = 'tune/experiment'

export interface DeploymentObject {
  readonly metadata: {
    readonly name: string
    readonly generation?: number
    readonly annotations?: Readonly<Record<string, string>>
    readonly labels?: Readonly<Record<string, string>>
  }
  readonly spec: {
    readonly replicas?: number
    readonly selector: { readonly matchLabels?: Readonly<Record<string, string>> }
    readonly template: PodTemplate
  }
  readonly status?: {
    readonly observedGeneration?: number
    readonly replicas?: number
    readonly updatedReplicas?: number
    readonly availableReplicas?: number
    readonly conditions?: readonly {
      readonly type: string
      readonly status: string
      readonly reason?: string
      readonly message?: string
    }[]
  }
}

interface PodTemplate {
  readonly metadata?: { readonly labels?: Readonly<Record<string, string>> }
  readonly spec: {
    readonly containers: readonly {
      readonly name: string
      readonly ports?: readonly { readonly containerPort: number }[]
    }[]
    readonly volumes?: readonly {
      readonly name: string
      readonly configMap?: { readonly name?: string }
    }[]
  }
}

/** The parts of a spec that are applied. */
interface ToApply {
  readonly deployment: Json
  /** ConfigMaps that pods mount; the bounds of an autoscaler. */
  readonly others: readonly Json[]
}

const kindOf = ({ kind }: Json): string => String(kind)
export const nameOf = ({ metadata }: Json): string =>
  String((metadata as { readonly name?: unknown } | undefined)?.name)

/** Untouched by tuning: what is there stays. */
const leftAlone: ReadonlySet<string> = new Set([
  'Service',
  'PodDisruptionBudget',
  'ServiceAccount',
  'Namespace',
  'Ingress',
])

/**
 * @param before the user's manifest, where the spec is that with tuned values put in: then only
 * what differs is applied, and the rest stays whoever's it is
 * @throws UserError for what cannot be applied by canary
 */
export function toApply(after: readonly Json[], before?: readonly Json[]): ToApply {
  const deployments = after.filter((one) => kindOf(one) === 'Deployment')
  const [deployment] = deployments
  if (deployments.length !== 1)
    throw usageError(
      `tune watch --apply changes one Deployment, and the spec has ${deployments.length === 0 ? 'none' : deployments.length} (${after.map(kindOf).join(', ')})`,
      'apply it by hand, or give --patch a file with the Deployment alone',
    )
  const strange = after.map(kindOf).filter((kind) => !isAppliedKind(kind) && !leftAlone.has(kind))
  if (strange.length > 0 && before === undefined)
    throw usageError(
      `tune watch --apply does not change ${strange.join(', ')}, which the spec has`,
      'apply it by hand',
    )
  const others = after.filter((one) => one !== deployment && isAppliedKind(one.kind))
  if (before === undefined) return { deployment: deployment!, others }
  const same = (one: Json) =>
    before.find((other) => kindOf(other) === kindOf(one) && nameOf(other) === nameOf(one)) ?? {}
  const parts = (one: Json) => onlyChanged(same(one), one)
  return {
    deployment: parts(deployment!),
    others: others.filter((one) => !isDeepStrictEqual(same(one), one)).map(parts),
  }
}

/** The fields of `after` that differ, under the object's name. */
const onlyChanged = (before: Json, after: Json): Json => ({
  apiVersion: after.apiVersion,
  kind: after.kind,
  ...(changed(before, after) as Json | undefined),
  metadata: {
    ...((changed(before.metadata, after.metadata) as Json | undefined) ?? {}),
    name: nameOf(after),
  },
})

function changed(before: unknown, after: unknown, key = ''): unknown {
  if (isDeepStrictEqual(before, after)) return undefined
  const by = mergedBy[key]
  if (Array.isArray(after) && Array.isArray(before) && by !== undefined) {
    return (after as Json[]).flatMap((item) => {
      const part = changed((before as Json[]).find((one) => one[by] === item[by]) ?? {}, item)
      return part === undefined ? [] : [{ [by]: item[by], ...(part as Json) }]
    })
  }
  if (
    Array.isArray(after) ||
    typeof after !== 'object' ||
    after === null ||
    typeof before !== 'object' ||
    before === null
  )
    return after
  const parts = Object.entries(after).map(
    ([name, value]) => [name, changed((before as Json)[name], value, name)] as const,
  )
  return Object.fromEntries(parts.filter(([, value]) => value !== undefined))
}

/**
 * The canary: the Deployment as the server would have it, once, under a name of its own, with
 * copies of the ConfigMaps that change with it. Its pods have all labels of the others, so that
 * whatever sends these requests sends it its share; the Deployment beside it does not take them
 * over, for they have an owner.
 * @param whole the Deployment after the change, from a dry run
 */
export function canaryObjects(
  whole: DeploymentObject,
  others: readonly Json[],
  owner: Owner,
  leaseId: string,
): Json[] {
  const { name } = whole.metadata
  const { selector, template } = whole.spec
  const copies = new Map(
    others
      .filter((one) => kindOf(one) === 'ConfigMap')
      .map((one) => [nameOf(one), canaryName(nameOf(one))]),
  )
  const mark = { [canaryLabel]: name }
  const metadata = (of: string) => ({
    name: of,
    labels: { ...labelsOf(leaseId, 'canary'), ...mark },
    ownerReferences: ownerReferences(owner),
  })
  const volumes = template.spec.volumes?.map((volume) => {
    const copy = copies.get(volume.configMap?.name ?? '')
    return copy === undefined
      ? volume
      : { ...volume, configMap: { ...volume.configMap, name: copy } }
  })
  const { strategy: _, replicas: __, ...spec } = whole.spec as Json
  return [
    ...others
      .filter((one) => kindOf(one) === 'ConfigMap')
      .map((one) => ({ ...one, metadata: metadata(canaryName(nameOf(one))) })),
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: metadata(canaryName(name)),
      spec: {
        ...spec,
        replicas: 1,
        selector: { ...selector, matchLabels: { ...selector.matchLabels, ...mark } },
        template: {
          ...template,
          metadata: { ...template.metadata, labels: { ...template.metadata?.labels, ...mark } },
          spec: { ...template.spec, ...(volumes && { volumes }) },
        },
      },
    },
  ]
}

export const canaryName = (name: string): string => `${name}-canary`

/**
 * The Deployment with its figures said, and as many replicas as asked; with an autoscaler beside it
 * those are the autoscaler's.
 */
export function withFigures(
  deployment: Json,
  {
    experiment,
    trial,
    replicas,
  }: { readonly experiment: string; readonly trial: number; readonly replicas: number | undefined },
): Json {
  const metadata = deployment.metadata as Json
  const { replicas: _, ...spec } = (deployment.spec ?? {}) as Json
  return {
    ...deployment,
    metadata: {
      ...metadata,
      annotations: {
        ...(metadata.annotations as Json | undefined),
        [experimentAnnotation]: experiment,
        [trialAnnotation]: String(trial),
      },
    },
    spec: { ...spec, ...(replicas !== undefined && { replicas }) },
  }
}
