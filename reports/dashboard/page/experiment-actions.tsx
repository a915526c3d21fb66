/** Buttons that archive, restore and delete an experiment. Deletion needs a confirmation. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { annotate, deleteExperiment } from './source.ts'

type Change = 'archived' | 'restored' | 'deleted'

export function ExperimentActions({
  id,
  trials,
  archived,
  running,
  onChanged,
  onProblem,
}: {
  id: string
  trials: number
  archived: boolean
  running: boolean
  /** Called after the change was saved. */
  onChanged(change: Change): void
  /** Called with the reason if the change failed. */
  onProblem(message: string): void
}) {
  const [isConfirming, setConfirming] = useState(false)
  const attempt = (work: Promise<unknown>, change: Change) =>
    void work.then(
      () => onChanged(change),
      (error: Error) => onProblem(`Failed: ${error.message}`),
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
        onClick={() => setConfirming(true)}
      >
        Delete
      </button>
      {isConfirming && (
        <ConfirmationDialog
          text={`Delete ${id} with its ${trials.toLocaleString('en-US')} trial${trials === 1 ? '' : 's'} permanently?`}
          confirmLabel="Delete"
          onAnswer={(isConfirmed) => {
            setConfirming(false)
            if (isConfirmed) attempt(deleteExperiment(id), 'deleted')
          }}
        />
      )}
    </span>
  )
}

/** Confirmation dialog. Cancel has the focus. */
function ConfirmationDialog({
  text,
  confirmLabel,
  onAnswer,
}: {
  text: string
  confirmLabel: string
  onAnswer(isConfirmed: boolean): void
}) {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => dialog.current!.showModal(), [])
  return (
    <dialog
      ref={dialog}
      class="ask"
      aria-label={text}
      onClose={({ currentTarget }) => onAnswer(currentTarget.returnValue === confirmLabel)}
    >
      <p>{text}</p>
      <p>
        {['Cancel', confirmLabel].map((answer) => (
          <button key={answer} type="button" onClick={() => dialog.current!.close(answer)}>
            {answer}
          </button>
        ))}
      </p>
    </dialog>
  )
}
