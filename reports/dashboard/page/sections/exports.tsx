/** Exports: documents under the what-if settings of the page, and deployment specs. */
import { useEffect, useState } from 'preact/hooks'
import { renderTrialsCsv } from '../../../report/trials-csv.ts'
import type { Answer } from '../answer.ts'
import { download } from '../elements.tsx'
import { useApp } from '../section.tsx'

/** Documents that the server writes; a saved page can export only CSV. */
const documents = [
  ['recommendation.json', 'Recommendation (JSON)'],
  ['dashboard.html', 'This page, self-contained (HTML)'],
  ['report.html', 'Report (HTML)'],
] as const

export function Exports({ answer }: { answer: Answer }) {
  const { online } = useApp()
  const { experiment, trials, ranker, whatIf } = answer
  const saveCsv = () =>
    download(
      `${experiment.id}.csv`,
      'text/csv',
      renderTrialsCsv(trials, ranker.createCriteria(whatIf)),
    )
  return (
    <>
      <h2>Export</h2>
      <p class="links">
        <button type="button" onClick={saveCsv}>
          Trials (CSV)
        </button>
        {online &&
          documents.map(([file, text]) => (
            <a
              key={file}
              class="button"
              href={buildExportUrl(answer, `export/${file}`)}
              download={`${experiment.id}-${file}`}
            >
              {text}
            </a>
          ))}
      </p>
      {online && <SpecPreview answer={answer} />}
      <details class="more">
        <summary>Experiment file to repeat it</summary>
        <pre class="log" tabIndex={0}>
          {experiment.specification}
        </pre>
      </details>
      <p class="note">Each chart saves as SVG by its own button. To print, use the browser.</p>
    </>
  )
}

/**
 * The deployment spec of the recommendation for a target that is chosen, to look at and to save.
 */
function SpecPreview({ answer }: { answer: Answer }) {
  const [target, choose] = useState('')
  const [spec, setSpec] = useState<{ ok: boolean; text: string }>()
  const url = buildExportUrl(answer, `spec/${target}`)
  const best = answer.recommendation.best?.trial
  useEffect(() => {
    if (target === '') return undefined
    let isWanted = true
    void fetchSpec(url).then((answer) => isWanted && setSpec(answer))
    return () => {
      isWanted = false
    }
  }, [target, url, best])
  const isShown = target !== '' && spec !== undefined
  return (
    <div>
      <h3>Deployment spec of the recommendation</h3>
      <p>
        <select
          aria-label="Target of the deployment spec"
          value={target}
          onChange={({ currentTarget }) => choose(currentTarget.value)}
        >
          <option value="">choose a target</option>
          {answer.experiment.specTargets?.map((name) => (
            <option key={name}>{name}</option>
          ))}
        </select>{' '}
        {isShown && (
          <button
            type="button"
            disabled={!spec.ok}
            onClick={() => download(`${target}.txt`, 'text/plain', spec.text)}
          >
            Save
          </button>
        )}
      </p>
      {isShown && (
        <pre class="log" tabIndex={0} id="spec" role="group" aria-label="Deployment spec">
          {spec.text}
        </pre>
      )}
    </div>
  )
}

const fetchSpec = (url: string) =>
  fetch(url).then(
    async (answer) => ({ ok: answer.ok, text: await answer.text() }),
    (error: Error) => ({ ok: false, text: `the server cannot be reached: ${error.message}` }),
  )

/** The question goes along: what is exported is what is shown. */
const buildExportUrl = ({ experiment, whatIf }: Answer, path: string): string =>
  `/api/experiments/${encodeURIComponent(experiment.id)}/${path}?view=${encodeURIComponent(JSON.stringify(whatIf))}`
