/**
 * Why a pod is gone that its trial did not remove: its namespace, the owner of the experiment, or its
 * node is gone. None of these is a result about the configuration.
 */
import type { V1Node } from '@kubernetes/client-node'
import type { Finality, LaunchError } from '../../types.ts'
import { type Api, ApiError } from './api.ts'
import { namespaceGone } from './failures.ts'
import { taintText } from './fits-node.ts'
import { manager } from './manifests.ts'

interface Loss {
  readonly what: string
  readonly hint: string
  readonly final?: Finality
}

/** @returns undefined where nothing but the state of the pod explains it */
export type ExplainLoss = (
  node: string | undefined,
  signal: AbortSignal,
) => Promise<Loss | undefined>

/** Limit of the search for the reason, ms: under load a missing server soon counts as a crash. */
const explainMs = 700

/** A loss with its reason. @param words the pod's own state */
export async function describeLoss(
  explain: ExplainLoss,
  node: string | undefined,
  words: string,
): Promise<Loss> {
  const late = AbortSignal.timeout(explainMs)
  const cause = await Promise.race([
    explain(node, late).catch(() => undefined),
    new Promise<undefined>((resolve) =>
      late.addEventListener('abort', () => resolve(undefined), { once: true }),
    ),
  ])
  return cause
    ? { ...cause, what: `${cause.what}; ${words}` }
    : { what: words, hint: 'tune tries it again' }
}

/** @param whyOwnerLost undefined: the owner is there, and this tuner's */
export const explainLoss =
  (api: Api, whyOwnerLost: () => Promise<string | undefined>): ExplainLoss =>
  async (node, signal) => {
    const [namespace, owner, onNode] = await Promise.all([
      whyNamespaceGone(api, signal),
      whyOwnerLost(),
      node === undefined ? undefined : whyNodeLost(api, node, signal),
    ])
    if (namespace) return { what: namespace.message, hint: namespace.hint!, final: namespace.final }
    const what = owner ?? onNode
    return what === undefined ? undefined : { what, hint: 'tune tries it again' }
  }

/** By a dry run: a tuner that may create trials may do that, but perhaps not read namespaces. */
async function whyNamespaceGone(api: Api, signal: AbortSignal): Promise<LaunchError | undefined> {
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
      (error: unknown) => (error instanceof ApiError ? namespaceGone(error.message) : undefined),
    )
}

async function whyNodeLost(
  api: Api,
  name: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { fieldSelector: `metadata.name=${name}` }
  const found = await api
    .request<{ items: V1Node[] }>('GET', '/api/v1/nodes', { query, signal, once: true })
    // Without permission to see nodes, or without an answer, the state of the pod has to do.
    .catch(() => undefined)
  if (found === undefined) return undefined
  const node = found.items.find(({ metadata }) => metadata?.name === name)
  if (node === undefined) return `node ${name} is gone from the cluster`
  if (node.spec?.unschedulable) return `node ${name} is cordoned and drained`
  const taint = node.spec?.taints?.find(({ effect }) => effect === 'NoExecute')
  if (taint) return `node ${name} now has the taint ${taintText(taint)}, which evicts its pods`
  const ready = node.status?.conditions?.find(({ type }) => type === 'Ready')
  return ready !== undefined && ready.status !== 'True'
    ? `node ${name} is not ready: ${ready.message ?? ready.reason ?? 'it does not answer'}`
    : undefined
}
