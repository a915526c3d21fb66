/**
 * Predictors that misbehave, each in one way, and what has to become of a trial with each. Their
 * server is hostile-server.mjs.
 */

/**
 * `fails`: it never starts, which is a failure of the run (exit code 1) with its last lines, and no
 * search that is sure of anything. `dies`: it ends under load, and none of its trials is complete.
 * `refused`: it is not recommended, whatever its speed. `serves`: odd, but within the protocol: its
 * trial is neither infeasible nor failed. `any`: whatever the verdict, the tuner ends within its
 * bounds of time and memory and leaves nothing.
 */
export type Fate = 'fails' | 'dies' | 'refused' | 'serves' | 'any'

const each = (fate: Fate, kinds: readonly string[]): Record<string, Fate> =>
  Object.fromEntries(kinds.map((kind) => [kind, fate]))

/** Its process ends, hangs, or never begins. */
const processes = {
  ...each('fails', [
    'exits at once',
    'exits well at once',
    'aborts at once',
    'stops itself at once',
    'forks away',
  ]),
  ...each('fails', ['never listens', 'listens elsewhere', 'never ready', 'ready, then gone']),
  ...each('dies', [
    'dies under load',
    'ends well under load',
    'segmentation fault under load',
    'bus error under load',
  ]),
  ...each('dies', [
    'killed under load',
    'terminated under load',
    'out of GPU memory under load',
    'an uncaught error under load',
  ]),
  ...each('dies', ['dies after a thousand', 'changes its port under load']),
  ...each('refused', [
    'stops itself under load',
    'hangs under load',
    'accepts and says nothing',
    'a second for each',
  ]),
  ...each('any', [
    'takes no more connections under load',
    'restarts itself under load',
    'blocks for a second under load',
    'ready now and then',
  ]),
  ...each('serves', [
    'listens late',
    'ignores SIGTERM',
    'leaves a daemon behind',
    'a daemon of a daemon',
    'a child each second',
  ]),
  ...each('serves', [
    'changes its title',
    'floods its log',
    'escapes in its log',
    'closes its output',
    'empties its log',
  ]),
  ...each('any', ['a line without end', 'slower and slower']),
}

const statuses = {
  ...each('refused', [
    'always 400',
    'always 401',
    'always 403',
    'always 404',
    'always 408',
    'always 413',
    'always 429',
    'always 500',
  ]),
  ...each('refused', [
    'always 503',
    '429 under load',
    '500 under load',
    '503 under load',
    'answers the half',
  ]),
  ...each('refused', [
    'redirects for ever',
    'redirects to nowhere',
    'redirects for ever under load',
    'no content',
    'no content under load',
  ]),
}

const bytes = {
  ...each('refused', [
    'no HTTP',
    'endless headers',
    'hangs up at once',
    'endless body',
    'endless body under load',
    'a byte a second',
  ]),
  ...each('refused', [
    'promises too much',
    'promises too little',
    'resets',
    'resets under load',
    'a hundred megabytes',
  ]),
  ...each('refused', [
    'gzip bomb',
    'HTTP/0.9',
    'status 999',
    'status of letters',
    'switches protocols',
  ]),
  ...each('refused', [
    '1xx storm',
    '1xx storm under load',
    '1xx and nothing',
    'a status line without end',
    'a header without end',
  ]),
  ...each('refused', [
    'a header without end under load',
    'two lengths',
    'a negative length',
    'a length of letters',
    'a length of 2^63',
  ]),
  ...each('refused', [
    'chunks of garbage',
    'chunks of garbage under load',
    'a chunk of 2^60',
    'a chunk extension without end',
  ]),
  ...each('refused', [
    'chunks without an end',
    'trailers without end',
    'closes without a word',
    'closes without a word under load',
  ]),
  ...each('refused', [
    'closes in the middle',
    'closes in the middle under load',
    'TLS garbage',
    'HTTP/2 frames',
    'random bytes under load',
  ]),
  ...each('any', [
    'answers unasked',
    'HTTP/9.9',
    'ten thousand headers',
    'NUL in a header',
    'a header without a colon',
    'line feeds alone',
  ]),
  ...each('any', [
    'length and chunks',
    'trailing bytes',
    'answers twice',
    'a reason of a megabyte',
    'random bytes',
  ]),
  ...each('serves', [
    'closes after each',
    'in chunks of one byte',
    'HTTP/1.0',
    'HTTP/1.0 without a length',
    'early hints',
    'half closed',
  ]),
  ...each('serves', ['keeps alive for no time', 'in two halves', 'gzip nobody asked for']),
}

const documents = {
  ...each('refused', [
    'a page',
    'a page under load',
    'half a document',
    'half a document under load',
    'two documents',
    'an empty body',
  ]),
  ...each('refused', [
    'an empty body under load',
    'a word behind the document',
    'a comment before the document',
    'deeply nested',
  ]),
  ...each('refused', [
    'NaN',
    'NaN under load',
    'a number beyond doubles',
    'invalid UTF-8',
    'UTF-16',
    'NUL bytes',
    'escapes and controls',
  ]),
  ...each('refused', [
    'an error of status 200',
    'an error of status 200 under load',
    'an error beside outputs',
    'null',
    'a number',
  ]),
  ...each('refused', ['a list', 'no outputs', 'outputs of an object', 'null for an output']),
  ...each('any', [
    'a number of a million digits',
    'deeply nested beside',
    'a million keys',
    'fifty megabytes beside',
  ]),
}

const meanings = {
  ...each('refused', [
    'another model',
    'another model under load',
    'another id',
    'another output',
    'another type',
    'an unknown type',
  ]),
  ...each('refused', [
    'another shape',
    'a negative shape',
    'a shape of fractions',
    'a shape of words',
    'a shape of 2^60',
    'no data',
  ]),
  ...each('refused', [
    'data of words',
    'data of objects',
    'numbers in quotes',
    'truths for numbers',
    'null for a number',
  ]),
  ...each('refused', [
    'null for a number under load',
    'rows mixed up',
    'wrong under load',
    'metadata without inputs',
  ]),
  ...each('refused', ['metadata of a billion values', 'metadata of no shape']),
  ...each('any', [
    'metadata of an unknown type',
    'an output twice',
    'metadata of a thousand inputs',
    'metadata of a negative shape',
    'the first answer for ever',
  ]),
  ...each('serves', [
    'its own numbering',
    'no id',
    'extra fields',
    'a key of a prototype',
    'drawn by chance',
  ]),
}

export const hostilePredictors: Readonly<Record<string, Fate>> = {
  ...processes,
  ...statuses,
  ...bytes,
  ...documents,
  ...meanings,
}
