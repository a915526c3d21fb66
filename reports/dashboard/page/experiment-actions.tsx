/** Archiving experiments, restoring them, and deleting them, which is asked about first. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { annotate, deleteExperiment } from './source.ts'

type Change = 'archived' | 'restored' | 'deleted'

export function ExperimentActions({
  id,
  trials,
  archived,
  running,
  done,
  problem,
}: {
  id: string
  trials: number
  archived: boolean
  running: boolean
  /** Told after a change that was kept. */
  done(change: Change): void
  /** Told why a change was not kept. */
  problem(message: string): void
}) {
  const [isAsking, setAsking] = useState(false)
  const attempt = (work: Promise<unknown>, change: Change) =>
    void work.then(
      () => done(change),
      (error: Error) => problem(`Failed: ${error.message}`),
    )
  const verb = archived ? 'Restore' : 'Archive'
  return (
    <span class="actions">
      <button
        class="quiet link"
        type="button"
        aria-label={`${verb} ${id}`}
        onClick={() =>
          attempt(
            annotate({ experimentId: id }, { archived: !archived }),
            archived ? 'restored' : 'archived',
          )
        }
      >
        {verb}
      </button>
      <button
        class="quiet link"
        type="button"
        aria-label={`Delete ${id}`}
        disabled={running}
        onClick={() => setAsking(true)}
      >
        Delete
      </button>
      {isAsking && (
        <Question
          text={`Delete ${id} with its ${trials.toLocaleString('en-US')} trial${trials === 1 ? '' : 's'} permanently?`}
          yes="Delete"
          answered={(isYes) => {
            setAsking(false)
            if (isYes) attempt(deleteExperiment(id), 'deleted')
          }}
        />
      )}
    </span>
  )
}

/** A question with a way out, which is where the focus stands. */
function Question({
  text,
  yes,
  answered,
}: {
  text: string
  yes: string
  answered(isYes: boolean): void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => dialog.current!.showModal(), [])
  return (
    <dialog
      ref={dialog}
      class="ask"
      aria-label={text}
      onClose={({ currentTarget }) => answered(currentTarget.returnValue === yes)}
    >
      <p>{text}</p>
      <p>
        {['Cancel', yes].map((answer) => (
          <button key={answer} type="button" onClick={() => dialog.current!.close(answer)}>
            {answer}
          </button>
        ))}
      </p>
    </dialog>
  )
}
