/** The order of a migration, for people. */
import { rate } from '../format.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import { counted } from './fleet-blocks.ts'
import type { Migration, MigrationStep } from './migration.ts'
import { whole } from './packing.ts'

export function migrationBlocks({ steps, staying, mostGpus }: Migration): Block[] {
  const kinds = Object.keys(mostGpus)
  const gpus = (counts: Readonly<Record<string, number>>) =>
    kinds.map((kind) => `${counts[kind]} ${kind}`).join(', ')
  const short = steps.filter((step) => step.short.length > 0)
  const stays = `${staying} ${staying === 1 ? 'replica stays' : 'replicas stay'} where ${staying === 1 ? 'it is' : 'they are'}`
  if (steps.length === 0) return [heading(2, 'From today'), paragraph(`Nothing moves: ${stays}.`)]
  return [
    heading(2, 'From today'),
    paragraph(
      `${steps.length} steps; ${stays}. A step is done when what it starts is ready and has its part of the requests, or what it ends has answered its last. Never more than ${gpus(mostGpus)} in use.`,
    ),
    ...list(
      short.length === 0
        ? [
            steps.some(({ replicas }) => replicas.some(({ when }) => when !== undefined))
              ? 'after every step what stands carries what is asked of every model in each quarter of an hour; who takes turns comes and goes by the clock as soon as it is brought up'
              : 'after every step what stands carries the highest rate of every model',
          ]
        : [
            `${short.length === 1 ? 'step' : 'steps'} ${short.map((step) => steps.indexOf(step) + 1).join(', ')}: no order was found that carries the highest rates with the GPUs that there are; begin in the hours that are said, and be done within them, or raise count: for the time of it`,
          ],
    ),
    ...table(
      ['step', 'what', 'GPUs in use', 'in hours', 'short'],
      runsOf(steps).map(({ step, from, to }) => [
        from === to ? String(from) : `${from}-${to}`,
        `${from === to ? '' : 'each: '}${saidOf(step)}`,
        gpus(step.gpusInUse),
        hoursSaid(step.hours),
        step.short
          .map(
            ({ model, carriesRps, demandRps }) =>
              `${model}: ${rate(carriesRps)} of ${rate(demandRps)}`,
          )
          .join(', ') || '-',
      ]),
      [0],
    ),
  ]
}

/**
 * Steps one after the other that do the same and leave nothing short, as one; with what is in use
 * after the last.
 */
function runsOf(
  steps: readonly MigrationStep[],
): { readonly step: MigrationStep; readonly from: number; readonly to: number }[] {
  const runs: { step: MigrationStep; from: number; to: number }[] = []
  for (const [i, step] of steps.entries()) {
    const last = runs.at(-1)
    if (
      last &&
      saidOf(last.step) === saidOf(step) &&
      last.step.short.length + step.short.length === 0
    )
      Object.assign(last, { step, to: i + 1 })
    else runs.push({ step, from: i + 1, to: i + 1 })
  }
  return runs
}

function saidOf({ action, kind, gpus, on, cut, givenBack = 0, replicas }: MigrationStep): string {
  const gpu = gpus === 1 ? kind : `${gpus} ${kind}`
  const what = counted(
    replicas.map(
      ({ model, slice, when }) =>
        `${model}${when === undefined ? '' : ` (${when})`} on ${slice === whole ? gpu : slice}`,
    ),
  ).join(', ')
  if (action === 'drain')
    return `drain ${what}${givenBack > 0 ? `, and give ${givenBack} ${kind} back` : ''}`
  if (on === 'as it is cut')
    return `bring up ${what}, on the ${kind} as it is cut, and shift requests there`
  const which = `${on === 'emptied' ? 'emptied' : 'one more'} ${gpu}`
  const cutting = cut!.every((slice) => slice === whole)
    ? `on ${on === 'emptied' ? 'the ' : ''}${which}`
    : `on ${on === 'emptied' ? 'the ' : ''}${which}, cut into ${counted(cut!).join(', ')}`
  return `bring up ${what || 'nothing'} ${cutting}, and shift requests there`
}

/** 'any', '0-6, 22-24', 'none'. */
function hoursSaid(hours: readonly number[]): string {
  if (hours.length === 24) return 'any'
  const starts = hours.filter((hour) => !hours.includes(hour - 1))
  return (
    starts
      .map((from) => {
        let to = from + 1
        while (hours.includes(to)) to++
        return `${from}-${to}`
      })
      .join(', ') || 'none'
  )
}
