/** The page of one experiment: sections in the order in which people ask. */
import { useLayoutEffect } from 'preact/hooks'
import type { ExperimentEntry } from '../data/page-data.ts'
import { Part, useApp, useLiveApp } from './part.tsx'
import { Annotations } from './sections/annotations.tsx'
import { Capacity } from './sections/capacity.tsx'
import { Compare } from './sections/compare.tsx'
import { CompareTrials } from './sections/compare-trials.tsx'
import { Curves } from './sections/curves.tsx'
import { Decision } from './sections/decision.tsx'
import { TrialDialog } from './sections/details.tsx'
import { Exports } from './sections/exports.tsx'
import { ImportanceSection } from './sections/importance-section.tsx'
import { PaperHead } from './sections/paper-head.tsx'
import { Pareto } from './sections/pareto.tsx'
import { Stages } from './sections/stages.tsx'
import { Timeline } from './sections/timeline.tsx'
import { Trials } from './sections/trials.tsx'
import { formatPageTitle, Verdict } from './sections/verdict.tsx'
import { WhatIf } from './sections/whatif.tsx'
import { ThemeButton } from './theme-button.tsx'

const links = [
  ['verdict', 'Overview'],
  ['pareto', 'SLO trade-off'],
  ['decide', 'Cost and capacity'],
  ['curves', 'Load curves'],
  ['capacity', 'Capacity plan'],
  ['matters', 'Parameter importance'],
  ['trials', 'Trials'],
  ['export', 'Export'],
] as const

export function Page() {
  const app = useApp()
  return (
    <>
      <header class="top">
        <a class="brand" href="#verdict">
          tune
        </a>
        <ExperimentChoice />
        <State />
        <nav aria-label="Sections">
          {links.map(([id, text]) => (
            <a key={id} href={`#${id}`}>
              {text}
            </a>
          ))}
          {app.online && <a href="/experiments">All experiments</a>}
        </nav>
        <ThemeButton changed={() => app.showAgain()} />
      </header>
      <main>
        <Notice />
        <Part class="paper-only" of={PaperHead} />
        <Part class="verdict" label="Verdict" showsQuickAnswer of={Verdict} />
        <Part
          class="whatif"
          label="What if: SLO, objective, demand and prices"
          showsQuickAnswer
          of={WhatIf}
        />
        <Part id="pareto" label="Pareto front" of={Pareto} />
        <div class="decide">
          <Part id="decide" label="Cost and capacity" of={Decision} />
          <Part id="curves" label="Load curves" of={Curves} />
        </div>
        <Part id="stages" label="Stages" of={Stages} />
        <Part id="capacity" label="Capacity plan" of={Capacity} />
        <Part class="beside" label="Note and tags" of={Annotations} />
        <Part id="matters" label="Parameter importance" of={ImportanceSection} />
        <Part id="trials" label="Trials" of={Trials} />
        <Part id="compare-trials" label="Trials side by side" of={CompareTrials} />
        <Part id="timeline" label="Timeline" of={Timeline} />
        <Part id="compare" label="Compare" of={Compare} />
        <Part id="export" label="Export" of={Exports} />
      </main>
      <TrialDialog />
    </>
  )
}

/** Experiments, newest first, without the archived ones. */
function ExperimentChoice() {
  const { state, chosen, answer } = useLiveApp()
  const offered = state.experiments
    .filter(({ id, annotation }) => id === chosen || annotation?.archivedAt === undefined)
    .reverse()
  const id = chosen || answer?.experiment.id
  return (
    <select
      id="experiment"
      aria-label="Experiment"
      value={id}
      onChange={({ currentTarget }) =>
        location.assign(`/?experiment=${encodeURIComponent(currentTarget.value)}`)
      }
    >
      {offered.length === 0 && <option value={id}>{id}</option>}
      {offered.map((e) => (
        <option key={e.id} value={e.id}>
          {describeEntry(e)}
        </option>
      ))}
    </select>
  )
}

const describeEntry = ({ id, provenance, createdAt }: ExperimentEntry): string =>
  `${id} · ${provenance} · ${createdAt.slice(0, 16).replace('T', ' ')}`

const stateWords = {
  running: '▶ running',
  interrupted: '‖ interrupted',
  done: '■ done',
  failed: '✕ failed',
} as const

/** How far the experiment is, here and in the page's title. */
function State() {
  const { answer, online } = useLiveApp()
  const title = answer && formatPageTitle(answer)
  useLayoutEffect(() => {
    if (title !== undefined) document.title = title
  }, [title])
  if (!answer) return <span class="state" role="status" />
  const { experiment, trials, loading } = answer
  const { state, maxTrials } = experiment
  const count = state === 'running' ? `, ${trials.length} of at most ${maxTrials}` : ''
  const source = !online ? ', saved copy' : loading ? ', loading' : ''
  return (
    <span class={`state ${state}`} role="status">{`${stateWords[state]}${count}${source}`}</span>
  )
}

function Notice() {
  const { problem } = useLiveApp()
  return (
    <p class="problem" role="alert" hidden={problem === ''}>
      {problem}
    </p>
  )
}
