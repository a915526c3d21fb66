/** Resolves the classes of requests of `load.payload`, and checks them against each other. */

import type { SloLimit } from '../../../profiler/model/slo.ts'
import type { LengthDistribution, PromptClass } from '../../../profiler/prompt-spec.ts'
import { apportionCounts } from '../../../profiler/protocols/request-classes.ts'
import type { Context } from '../context.ts'
import { listLimits, type SloEntry } from '../parse-slo.ts'

type ClassEntries = Readonly<
  Record<string, Omit<PromptClass, 'name'> & { readonly slo?: SloEntry }>
>

/** Shares are usually rounded to whole per cent, so thirds add up to 99 %. */
const shareTolerance = 0.005

interface PayloadSettings {
  readonly inputTokens?: LengthDistribution
  readonly outputTokens?: LengthDistribution
  readonly turns?: LengthDistribution
  readonly lengths?: string
}

/**
 * @param beside the keys of `load.payload`
 * @param count number of generated bodies
 * @param streamed the requests are prompts of a language model
 */
export function resolveClasses(
  { report, invalidKeys }: Context,
  classes: ClassEntries,
  beside: PayloadSettings,
  count: number,
  streamed: boolean,
): readonly PromptClass[] {
  const at = ['load', 'payload', 'classes']
  const named = Object.entries(classes).map(
    ([name, { slo: _, ...entry }]): PromptClass => ({ name, ...entry }),
  )
  if (!streamed)
    report(
      at,
      'classes of requests apply only to language models',
      'for other models, use items, such as items: 1:70, 8:30',
    )
  for (const key of ['inputTokens', 'outputTokens', 'turns', 'lengths'] as const)
    if (beside[key] !== undefined)
      report(
        ['load', 'payload', key],
        `${key} and classes exclude each other, because classes have their own lengths`,
        'use only one of them',
      )
  if (named.length === 0) {
    report(
      at,
      'no class',
      'write, for example, chat: {share: 70%, inputTokens: 300, outputTokens: 200}',
    )
    return named
  }
  const shares = named.map(({ share }) => share)
  const sum = shares.reduce((total, share) => total + share, 0)
  // An invalid class is missing here, and so is its share.
  if (Math.abs(sum - 1) > shareTolerance && !invalidKeys.has('load'))
    report(
      at,
      `the shares of the classes add up to ${Number((100 * sum).toPrecision(6))} %`,
      'make them add up to 100 %',
    )
  const counts = sum > 0 ? apportionCounts(shares, count) : []
  for (const [i, { name, share }] of named.entries())
    if (!counts[i])
      report(
        [...at, name, 'share'],
        `${Number((100 * share).toPrecision(6))} % of ${count} requests is less than one request`,
        'increase the share, or use more different requests, such as count: 4096',
      )
  return named
}

/** Limits of single classes. @param general whether `slo` has limits for the other classes */
export function listClassLimits(
  { report, invalidKeys, entries }: Context,
  general: boolean,
): SloLimit[] {
  const classes = Object.entries<ClassEntries[string]>(entries.load.payload?.classes ?? {})
  const at = ['load', 'payload', 'classes']
  const limitsByClass = classes.map(([name, { slo = {} }]) =>
    listLimits(slo).map((limit): SloLimit => ({ ...limit, requestClass: name })),
  )
  const without = classes.flatMap(([name], i) => (limitsByClass[i]!.length > 0 ? [] : [name]))
  if (without.length < classes.length && without.length > 0 && !general && !invalidKeys.has('load'))
    report(
      [...at, without[0]!],
      `no SLO for ${without.join(', ')}`,
      'add limits to the class, or write `slo` for classes without limits',
    )
  if (classes.length > 0 && without.length === 0 && general)
    report(
      ['slo'],
      'these limits apply to no request, because every class has its own',
      'write only the percentile here, or remove the slo of a class',
    )
  return limitsByClass.flat()
}
