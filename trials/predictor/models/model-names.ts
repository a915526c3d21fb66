/**
 * The models the predictor can build without files. Free of imports, so that a command line can
 * check a name without loading an engine.
 */
export const modelNames = [
  'bert-base',
  'bert-large',
  'bert-medium',
  'bert-small',
  'bert-mini',
  'bert-tiny',
  'distilbert',
  'albert',
  'minilm',
  'resnet50',
  'mobilenet',
  'mobilenetv2',
] as const
