// PlantedControllerBugs: bugs of the controller that a test plants to show that it would find them.
// Only tests set these flags.
//
// Threads: a value.
#pragma once

namespace gangway {

struct PlantedControllerBugs {
  // When a host is lost between a run's prepare and its first grant, the run's outputs stay.
  bool keeps_outputs_of_lost_runs = false;
  // New runs get the ids of runs that lost a host, so that late reports of other hosts about the
  // end of the old run are taken for the new run's.
  bool reuses_run_ids = false;
  // Two ranges of one frame of grants have their tickets exchanged.
  bool swaps_tickets = false;
  // A prepare goes out with the run's first grant, so that a cancel may overtake it.
  bool prepares_late = false;
  // Hosts free an array as soon as its client releases it, though a run that they do not know yet
  // is to read it.
  bool frees_before_reads = false;
  // Overlaid programs have turns of sections, so that one begins in the middle of another's run.
  bool cuts_overlaid_runs = false;
  // Each charge of a program counts twice.
  bool charges_twice = false;
  // A copy whose host was lost counts as settled: as if no host could write to its memory any more.
  bool settles_lost_copies = false;
  // A run whose result was reported has its time limit again when it is run once more.
  bool limits_told_runs_again = false;
  // Recovery does not know a program that came back after a restart of the controller.
  bool forgets_resumed_programs = false;
  // A program's record has the present shapes of its slices, instead of those asked for.
  bool records_shrunk_slices = false;
  // A checkpoint that waits for its version leaves out states that are placed meanwhile.
  bool keeps_layout_of_waiting_checkpoints = false;
  // A state that is younger than the newest checkpoint is expected in it.
  bool expects_new_states_in_checkpoints = false;
  // Recovery wants to restore states that no executable has any more, too.
  bool restores_released_states = false;
};

}  // namespace gangway
