/**
 * Why a pod is gone that its trial did not remove: its namespace, the owner of the experiment, or
 * its node is gone. None of these is a result about the configuration.
 */
import type { V1Node } from '@kubernetes/client-node'
import type { Finality, LaunchError } from '../../../types.ts'
import { type Api, ApiError } from '../api/api.ts'
import { manager } from '../manifests/manifests.ts'
import { formatTaint } from '../scheduling/node-fit.ts'
import { findNamespaceError } from './failures.ts'

interface Loss {
  readonly what: string
  readonly hint: string
  readonly final?: Finality
}

/** @returns undefined if nothing but the state of the pod explains it */
export type ExplainLoss = (
  node: string | undefined,
  signal: AbortSignal,
) => Promise<Loss | undefined>

/** Time limit for finding the reason, ms: under load, a missing server soon counts as a crash. */
const maxExplainMs = 700

/**
 * Describes a loss with its reason.
 * @param words the pod's state
 */
export async function describeLoss(
  explain: ExplainLoss,
  node: string | undefined,
  words: string,
): Promise<Loss> {
  const deadline = AbortSignal.timeout(maxExplainMs)
  const cause = await Promise.race([
    explain(node, deadline).catch(() => undefined),
    new Promise<undefined>((resolve) =>
      deadline.addEventListener('abort', () => resolve(undefined), { once: true }),
    ),
  ])
  return cause
    ? { ...cause, what: `${cause.what}; ${words}` }
    : { what: words, hint: 'tune tries it again' }
}

/** @param whyOwnerLost resolves with undefined if the owner exists and belongs to this tuner */
export const createLossExplainer =
  (api: Api, whyOwnerLost: () => Promise<string | undefined>): ExplainLoss =>
  async (node, signal) => {
    const [namespace, owner, onNode] = await Promise.all([
      explainNamespaceLoss(api, signal),
      whyOwnerLost(),
      node === undefined ? undefined : explainNodeLoss(api, node, signal),
    ])
    if (namespace) return { what: namespace.message, hint: namespace.hint!, final: namespace.final }
    const what = owner ?? onNode
    return what === undefined ? undefined : { what, hint: 'tune tries it again' }
  }

/** Uses a dry run: a tuner may create trials, but perhaps not read namespaces. */
async function explainNamespaceLoss(
  api: Api,
  signal: AbortSignal,
): Promise<LaunchError | undefined> {
  const body = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `${manager}-check` } }
  const query = { dryRun: 'All' }
  return api
    .request('POST', `/api/v1/namespaces/${api.namespace}/configmaps`, {
      body,
      query,
      signal,
      once: true,
    })
    .then(
      () => undefined,
      (error: unknown) =>
        error instanceof ApiError ? findNamespaceError(error.message) : undefined,
    )
}

async function explainNodeLoss(
  api: Api,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { fieldSelector: `metadata.name=${name}` }
  const nodes = await api
    .request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { query, signal, once: true })
    // Without permission to read nodes, or without an answer, the pod's state is the only
    // explanation.
    .catch(() => undefined)
  if (nodes === undefined) return undefined
  const node = nodes.items.find(({ metadata }) => metadata?.name === name)
  if (node === undefined) return `node ${name} is gone from the cluster`
  if (node.spec?.unschedulable) return `node ${name} is cordoned and drained`
  const taint = node.spec?.taints?.find(({ effect }) => effect === 'NoExecute')
  if (taint) return `node ${name} now has the taint ${formatTaint(taint)}, which evicts its pods`
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')
  return ready !== undefined && ready.status !== 'True'
    ? `node ${name} is not ready: ${ready.message ?? ready.reason ?? 'it does not answer'}`
    : undefined
}
