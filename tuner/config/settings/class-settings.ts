/** Resolves the classes of requests of `load.payload`, and checks them against each other. */

import type { SloLimit } from '../../../profiler/model/slo.ts'
import type { LengthDistribution, PromptClass } from '../../../profiler/prompt-spec.ts'
import { apportionCounts } from '../../../profiler/protocols/request-classes.ts'
import type { Context } from '../context.ts'
import { listLimits, type SloEntry } from '../values/parse-slo.ts'

type ClassEntries = Readonly<
  Record<string, Omit<PromptClass, 'name'> & { readonly slo?: SloEntry }>
>

/**
 * Largest error of a share that is rounded to whole per cent: three thirds of 33 % add up to 99 %,
 * six sixths of 17 % to 102 %.
 */
const maxRoundingError = 0.005

interface PayloadSettings {
  readonly inputTokens?: LengthDistribution
  readonly outputTokens?: LengthDistribution
  readonly turns?: LengthDistribution
  readonly lengths?: string
}

/**
 * @param payload the other keys of `load.payload`
 * @param count number of generated bodies
 * @param isLanguageModel the requests are prompts of a language model
 */
export function resolveClasses(
  { report, invalidKeys }: Context,
  classes: ClassEntries,
  payload: PayloadSettings,
  count: number,
  isLanguageModel: boolean,
): readonly PromptClass[] {
  const at = ['load', 'payload', 'classes']
  const classList = Object.entries(classes).map(
    ([name, { slo: _, ...entry }]): PromptClass => ({ name, ...entry }),
  )
  if (!isLanguageModel)
    report(
      at,
      'classes of requests apply only to language models',
      'for other models, use items, such as items: 1:70, 8:30',
    )
  for (const key of ['inputTokens', 'outputTokens', 'turns', 'lengths'] as const)
    if (payload[key] !== undefined)
      report(
        ['load', 'payload', key],
        `${key} and classes exclude each other, because classes have their own lengths`,
        'use only one of them',
      )
  if (classList.length === 0) {
    report(
      at,
      'load.payload.classes is empty',
      'write, for example, chat: {share: 70%, inputTokens: 300, outputTokens: 200}',
    )
    return classList
  }
  const shares = classList.map(({ share }) => share)
  const sum = shares.reduce((total, share) => total + share, 0)
  const tolerance = classList.length * maxRoundingError
  // An invalid class is missing here, and so is its share.
  if (Math.abs(sum - 1) > tolerance + Number.EPSILON && !invalidKeys.has('load'))
    report(
      at,
      `the shares of the classes add up to ${Number((100 * sum).toPrecision(6))} %`,
      'make them add up to 100 %',
    )
  const counts = sum > 0 ? apportionCounts(shares, count) : []
  for (const [i, { name, share }] of classList.entries())
    if (!counts[i])
      report(
        [...at, name, 'share'],
        `${Number((100 * share).toPrecision(6))} % of ${count} requests is less than one request`,
        'increase the share, or use more different requests, such as count: 4096',
      )
  return classList
}

/**
 * Lists the SLO limits of the single classes.
 * @param hasGeneralSlo whether `slo` sets limits for the classes without limits of their own
 */
export function listClassLimits(
  { report, invalidKeys, entries }: Context,
  hasGeneralSlo: boolean,
): SloLimit[] {
  const classes = Object.entries<ClassEntries[string]>(entries.load.payload?.classes ?? {})
  const at = ['load', 'payload', 'classes']
  const limitsByClass = classes.map(([name, { slo = {} }]) =>
    listLimits(slo).map((limit): SloLimit => ({ ...limit, requestClass: name })),
  )
  const classesWithoutSlo = classes.flatMap(([name], i) =>
    limitsByClass[i]!.length > 0 ? [] : [name],
  )
  if (
    classesWithoutSlo.length < classes.length &&
    classesWithoutSlo.length > 0 &&
    !hasGeneralSlo &&
    !invalidKeys.has('load')
  )
    report(
      [...at, classesWithoutSlo[0]!],
      `no SLO for ${classesWithoutSlo.join(', ')}`,
      'add limits to the class, or write `slo` for classes without limits',
    )
  if (classes.length > 0 && classesWithoutSlo.length === 0 && hasGeneralSlo)
    report(
      ['slo'],
      'these limits apply to no request, because every class has its own',
      'write only the percentile here, or remove the slo of a class',
    )
  return limitsByClass.flat()
}
