/**
 * Trials that were picked in the table, side by side: their load curves in one chart, and where
 * their configurations and figures differ.
 */
import { latency, money, significant, sloName } from '../../../format.ts'
import { describeStatus } from '../../../recommendation/describe-status.ts'
import type { RankedCandidate } from '../../../recommendation/ranked-candidate.ts'
import { estimateText, formatCapacity, formatLatencyValue } from '../../../recommendation/words.ts'
import { createCurvesOption } from '../../charts/curves-chart.ts'
import type { Answer } from '../answer.ts'
import { TrialChart } from '../chart.tsx'
import { Table } from '../elements.tsx'
import { useApp } from '../section.tsx'

export function CompareTrials({ answer }: { answer: Answer }) {
  const app = useApp()
  const { sideBySide, trials, byTrial, ranker, whatIf, theme } = answer
  if (sideBySide.size === 0) return null
  const picked = [...sideBySide].flatMap((number) => byTrial.get(number) ?? [])
  const judged = ranker.addMeasurements(trials, picked, whatIf)
  const drawn = judged.filter(({ candidate }) => candidate.capacityRps > 0)
  const words = drawn.map(({ candidate: c }) => `trial ${c.trial}: ${formatCapacity(c)}`)
  return (
    <>
      <header>
        <h2>Trials side by side</h2>
        <button type="button" onClick={() => app.pickTrials([])}>
          Clear selection
        </button>
      </header>
      {drawn.length > 0 && (
        <TrialChart
          answer={answer}
          name="trials-compared"
          altText={`Load curves of ${words.join('; ')}`}
          createOption={() => createCurvesOption(drawn, whatIf.slo, theme)}
        />
      )}
      {picked.length < sideBySide.size && (
        <p class="note">
          {`Left out, because other trials represent their configurations: ${[...sideBySide].filter((number) => !byTrial.has(number)).join(', ')}.`}
        </p>
      )}
      <Differences judged={judged} answer={answer} />
    </>
  )
}

interface Row {
  readonly name: string
  readonly of: (judged: RankedCandidate) => string
}

/** A column for each trial; what is the same in all of them is pale. */
function Differences({
  judged,
  answer: { experiment, whatIf, annotations },
}: {
  judged: readonly RankedCandidate[]
  answer: Answer
}) {
  const knobs: Row[] = experiment.parameters.map(({ name }) => ({
    name,
    of: ({ candidate }) => String(candidate.configuration[name] ?? '-'),
  }))
  const figure = (name: string, of: Row['of']): Row => ({ name, of })
  const served = (of: (judged: RankedCandidate) => string) => (one: RankedCandidate) =>
    one.candidate.capacityRps > 0 ? of(one) : '-'
  const figures: Row[] = [
    figure(
      'status',
      ({ candidate: { reason, status } }) =>
        reason ?? describeStatus(status, experiment.provenance).name,
    ),
    figure(
      'safe capacity',
      served(({ candidate }) => formatCapacity(candidate)),
    ),
    figure(
      'estimate [90 %]',
      served(({ candidate }) => estimateText(candidate)),
    ),
    figure(
      `${sloName(whatIf.slo)} there`,
      served(({ candidate }) => formatLatencyValue(whatIf.slo, candidate)),
    ),
    figure('unloaded latency', ({ candidate }) =>
      candidate.unloadedMs === undefined ? '-' : latency(candidate.unloadedMs),
    ),
    figure('$ / h', ({ candidate }) => money(candidate.pricePerHour)),
    figure(
      '$ / M requests',
      served(({ candidate }) => money(candidate.pricePerMillionRequests)),
    ),
    figure('ready after', ({ candidate: { usage } }) =>
      usage?.launchSeconds === undefined ? '-' : `${significant(usage.launchSeconds)} s`,
    ),
    figure('note and tags', ({ candidate: { trial } }) => {
      const { tags = [], note } = annotations.get(trial) ?? {}
      return [...tags, ...(note === undefined ? [] : [note])].join(', ')
    }),
  ]
  const lines = [...knobs, ...figures].flatMap(({ name, of }) => {
    const texts = judged.map(of)
    if (texts.every((text) => text === '' || text === '-')) return []
    const same = judged.length > 1 && texts.every((text) => text === texts[0])
    const cell = (text: string) => <span class={same ? 'same' : 'differs'}>{text}</span>
    return [[name, ...texts].map(cell)]
  })
  return (
    <Table
      caption="Trials side by side"
      head={['', ...judged.map(({ candidate }) => `trial ${candidate.trial}`)]}
      rows={lines}
    />
  )
}
