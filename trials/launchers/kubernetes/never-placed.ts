/** Whether a predictor can ever be scheduled in a cluster, checked before it is created. */
import type { V1Pod, V1ResourceQuota } from '@kubernetes/client-node'
import { type Api, ApiError } from './api.ts'
import { quantity, quotaUse } from './failures.ts'
import { findNode } from './fits-node.ts'
import type { Json } from './manifests.ts'
import { mayAddNodes } from './scale-up.ts'

const never = new AbortController().signal

/**
 * @param pod the predictor's
 * @param load its load generator's, where it runs in the cluster
 * @returns why it never can be; undefined: it may be, or the tuner may not see that
 */
export async function whyNeverPlaced(
  api: Api,
  pod: Json,
  load: Json | undefined,
): Promise<string | undefined> {
  return (await beyondQuotas(api, pod, load)) ?? (await beyondNodes(api, pod))
}

async function beyondNodes(api: Api, pod: Json): Promise<string | undefined> {
  const fit = await findNode(api, pod, []).catch(unseen)
  // A cluster without nodes has something that adds them.
  if (fit?.kind !== 'never' || fit.noNodes || (await mayAddNodes(api, never))) return undefined
  return fit.what
}

async function beyondQuotas(
  api: Api,
  pod: Json,
  load: Json | undefined,
): Promise<string | undefined> {
  const path = `/api/v1/namespaces/${api.namespace}/resourcequotas`
  const quotas = await api
    .request<{ items: V1ResourceQuota[] }>('GET', path, { once: true })
    .catch(unseen)
  const pods = [pod, ...(load ? [load] : [])] as unknown as V1Pod[]
  const use = quotaUse(pods)
  for (const { metadata, spec } of quotas?.items ?? []) {
    // Only the API server can judge quotas with a scope.
    if (spec?.scopes?.length || spec?.scopeSelector) continue
    for (const [resource, hard] of Object.entries(spec?.hard ?? {})) {
      const amount = use.get(resource)
      if (amount !== undefined && amount > quantity(hard))
        return `quota ${metadata?.name} allows ${resource} ${hard}, and a predictor${load ? ' and its load generator together request' : ' requests'} ${inUnitOf(hard, amount)}`
    }
  }
  return undefined
}

/** An amount with the suffix of another quantity: 0.8 like '700m' is '800m'. */
function inUnitOf(text: string, amount: number): string {
  const suffix = /[a-zA-Z]*$/.exec(text)![0]
  return `${Number((amount / quantity(`1${suffix}`)).toPrecision(6))}${suffix}`
}

function unseen(error: unknown): undefined {
  if (error instanceof ApiError) return undefined
  throw error
}
