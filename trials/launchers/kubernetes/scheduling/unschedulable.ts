/** Checks whether the pods of a trial can ever be scheduled, before they are created. */
import type { V1Pod, V1ResourceQuota } from '@kubernetes/client-node'
import { type Api, ApiError } from '../api/api.ts'
import { parseQuantity } from '../api/quantity.ts'
import type { Json } from '../manifests/manifests.ts'
import { sumQuotaUse } from '../scheduling/quota.ts'
import { findMissingTotal, findNode } from './node-fit.ts'
import { canAddNodes } from './scale-up.ts'

const neverAborted = new AbortController().signal

/**
 * @param pods the predictor's pods, which run at the same time
 * @param load its load generator's pod, if that runs in the cluster
 * @returns why it can never be scheduled; undefined if it may, or if the tuner lacks the
 * permissions to tell
 */
export async function explainUnschedulable(
  api: Api,
  pods: readonly Json[],
  load: Json | undefined,
): Promise<string | undefined> {
  return (await explainByQuotas(api, pods, load)) ?? (await explainByNodes(api, pods))
}

async function explainByNodes(api: Api, pods: readonly Json[]): Promise<string | undefined> {
  const reason = await findUnplaceable(api, pods)
  return reason === undefined || (await canAddNodes(api, neverAborted)) ? undefined : reason
}

async function findUnplaceable(api: Api, pods: readonly Json[]): Promise<string | undefined> {
  for (const pod of pods) {
    const fit = await findNode(api, pod, []).catch(ignoreApiError)
    // A cluster without nodes has an autoscaler.
    if (fit?.kind === 'never' && !fit.noNodes) return fit.what
  }
  return pods.length > 1 ? findMissingTotal(api, pods).catch(ignoreApiError) : undefined
}

async function explainByQuotas(
  api: Api,
  predictorPods: readonly Json[],
  load: Json | undefined,
): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${api.namespace}/resourcequotas`
  const quotas = await api
    .request<{ items: V1ResourceQuota[] }>('GET', path, { once: true })
    .catch(ignoreApiError)
  const pods = [...predictorPods, ...(load ? [load] : [])] as unknown as V1Pod[]
  const use = sumQuotaUse(pods)
  for (const { metadata, spec } of quotas?.items ?? []) {
    // Only the API server can judge quotas with a scope.
    if (spec?.scopes?.length || spec?.scopeSelector) continue
    for (const [resource, hard] of Object.entries(spec?.hard ?? {})) {
      const amount = use.get(resource)
      if (amount !== undefined && amount > parseQuantity(hard))
        return `quota ${metadata?.name} allows ${resource} ${hard}, and a predictor${load ? ' and its load generator together request' : ' requests'} ${formatInUnit(hard, amount)}`
    }
  }
  return undefined
}

/** Formats an amount in the unit of another quantity: 0.8 in the unit of '700m' is '800m'. */
function formatInUnit(text: string, amount: number): string {
  const suffix = /[a-zA-Z]*$/.exec(text)![0]
  return `${Number((amount / parseQuantity(`1${suffix}`)).toPrecision(6))}${suffix}`
}

function ignoreApiError(error: unknown): undefined {
  if (error instanceof ApiError) return undefined
  throw error
}
