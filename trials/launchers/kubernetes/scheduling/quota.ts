/** ResourceQuotas: what pods use of them, and which one refuses a pod. */
import type { V1Pod } from '@kubernetes/client-node'
import { parseQuantity } from '../api/quantity.ts'

/** Sums what pods count towards a ResourceQuota, by the names that quotas use. */
export function sumQuotaUse(pods: readonly V1Pod[]): Map<string, number> {
  const totals = new Map<string, number>()
  const add = (name: string, amount: number) => totals.set(name, (totals.get(name) ?? 0) + amount)
  for (const { spec } of pods) {
    add('pods', 1)
    add('count/pods', 1)
    for (const { resources } of spec?.containers ?? []) {
      for (const [name, amount] of Object.entries({
        ...resources?.limits,
        ...resources?.requests,
      })) {
        add(name, parseQuantity(amount))
        add(`requests.${name}`, parseQuantity(amount))
      }
      for (const [name, amount] of Object.entries(resources?.limits ?? {}))
        add(`limits.${name}`, parseQuantity(amount))
    }
  }
  return totals
}

/**
 * Why a quota refuses a pod: 'others' where other pods use it up. Otherwise the resource of which
 * this pod, together with `concurrent`, requests more than the whole quota.
 * @param concurrent quota use of pods that run as long as this one
 */
export function findExceededQuota(
  message: string,
  concurrent: ReadonlyMap<string, number> = new Map(),
): 'others' | { readonly resource: string } | undefined {
  if (!message.includes('exceeded quota')) return undefined
  const parseList = (name: string) => {
    const text =
      new RegExp(`${name}: ([^:]*?)(?:, (?:used|limited|requested):|$| \\()`).exec(message)?.[1] ??
      ''
    return new Map(text.split(',').map((pair) => pair.split('=') as [string, string]))
  }
  const limited = parseList('limited')
  for (const [resource, requested] of parseList('requested')) {
    const max = limited.get(resource)
    if (max === undefined) continue
    if (parseQuantity(requested) + (concurrent.get(resource) ?? 0) > parseQuantity(max))
      return { resource }
  }
  return 'others'
}
