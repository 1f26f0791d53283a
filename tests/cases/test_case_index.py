"""Which tests cover which shared case; a case without a test, or a test that is gone, is an error.

A case is covered by its expected value, not by its mention. Where this project decides otherwise than a case expects,
the test's docstring says why; what falls short is an xfail with its reason.
"""

import ast
from pathlib import Path

import pytest
from case_inputs import all_cases

TESTS = Path(__file__).resolve().parents[1]

COVERED: dict[str, tuple[str, ...]] = {
    "C01": (
        "readers/test_reader_openai.py::test_case_of_content_shapes",
        "cases/test_case_ingest.py::test_case_c01_content_shapes_in_a_store",
    ),
    "C03": (
        "readers/test_reader_exports.py::test_chatgpt_case_of_trees",
        "readers/test_reader_json_stream.py::test_too_deep_and_too_large_cost_one_item",
        "cases/test_case_ingest.py::test_case_c03_an_export_of_trees_ends_well_and_is_counted",
    ),
    "C04": (
        "readers/test_reader_texts.py::test_whatsapp_case_of_hidden_characters",
        "readers/test_reader_texts.py::test_whatsapp_without_a_message_shows_the_first_line",
        "cases/test_case_ingest.py::test_case_c04_a_chat_of_hidden_characters_in_a_store",
        "cases/test_case_ingest.py::test_case_c04_a_chat_that_does_not_tell_day_from_month_is_not_guessed",
    ),
    "C06": (
        "test_embed.py::test_case_c06_control_tokens_are_plain_text",
        "cases/test_case_ingest.py::test_case_c06_control_strings_are_stored_as_they_are_and_cannot_act_in_a_prompt",
    ),
    "C08": (
        "test_ingest_order.py::test_case_c08_ids_are_kept_as_they_are",
        "cases/test_case_ingest.py::test_case_c08_ids_never_become_paths",
    ),
    "C10": (
        "test_embed.py::test_a_text_beyond_the_window_is_marked",
        "cases/test_case_vectors.py::test_case_c10_a_long_message_is_cut_into_events_and_none_of_it_is_lost",
        "cases/test_case_vectors.py::test_case_c10_the_tail_is_found",
    ),
    "C11": (
        "test_embed.py::test_a_bad_vector_is_made_once_more_alone_and_then_marked",
        "cases/test_case_vectors.py::test_case_c11_texts_that_are_nothing_are_rejected_by_line_and_never_embedded",
        "cases/test_case_vectors.py::test_case_c11_a_vector_that_stays_bad_is_null_marked_and_joined_to_nothing",
    ),
    "C13": ("test_knn.py::test_cases_c13_and_c14", "test_knn.py::test_weights_stay_within_bounds"),
    "C14": (
        "test_end_to_end.py::test_case_c14_near_duplicates",
        "test_knn.py::test_no_row_has_more_edges_than_the_cap_and_rows_at_the_cap_are_counted",
    ),
    "C16": (
        "test_ingest.py::test_case_c16_times_and_zones",
        "test_ingest.py::test_case_c16_does_not_depend_on_the_zone_of_the_machine",
        "test_stamps.py::test_case_c16_zones",
    ),
    "C17": (
        "test_stamps.py::test_case_c17_formats",
        "cases/test_case_time.py::test_case_c17_stamps_in_a_store",
    ),
    "C19": (
        "timex/test_timex_english.py::test_case_c19_relative_words_hang_on_the_message",
        "cases/test_case_time.py::test_case_c19_what_relative_words_mean_hangs_on_the_message",
        "cases/test_case_time.py::test_case_c19_nothing_asks_the_clock",
    ),
    "C20": ("timex/test_timex_english.py::test_case_c20_spoken_forms",),
    "C21": (
        "timex/test_timex_languages.py::test_a_common_form_has_its_interval",
        "timex/test_timex_languages.py::test_no_date_rather_than_a_wrong_one",
        "cases/test_case_time.py::test_case_c21_languages_with_rules_are_right_and_others_say_nothing",
    ),
    "C23": ("timex/test_timex_english.py::test_case_c23_year_edge",),
    "C25": (
        "extract/test_extract_cases.py::test_equal_times_do_not_turn_a_cause_round",
        "test_ingest.py::test_case_c25_the_total_order",
        "cases/test_case_time.py::test_case_c25_equal_times_keep_the_order_of_the_log_whatever_the_order_of_lines",
    ),
    "C27": (
        "cases/test_case_graph.py::test_case_c27_a_hub_is_a_star_of_light_edges",
        "cases/test_case_graph.py::test_case_c27_the_rare_events_come_first",
        "cases/test_case_graph.py::test_case_c27_caps_hold_and_say_that_they_bit",
    ),
    "C28": (
        "export/test_export_graphs.py::test_case_c28",
        "export/test_export_graphs.py::test_the_package_never_unpickles",
    ),
    "C29": ("test_graph.py::test_case_c29_batches_keep_every_type_and_edge",),
    "C31": (
        "extract/test_extract_cases.py::test_people_of_one_name_and_names_of_one_person",
        "cases/test_case_graph.py::test_case_c31_names_with_quotes_survive_storage_search_and_export",
    ),
    "C32": ("test_entities.py::test_names_of_the_unicode_case",),
    "C34": (
        "pipelines/test_build_damage.py::test_cut_files_of_the_case_are_noticed",
        "pipelines/test_build_damage.py::test_full_disk_is_one_sentence_and_loses_nothing",
        "pipelines/test_build_damage.py::test_manifest_is_made_again_from_the_files",
        "pipelines/test_build_crash.py::test_killed_build_ends_in_the_same_bytes",
        "cases/test_case_ingest.py::test_case_c34_the_damaged_files_themselves_are_no_input",
    ),
    "C35": (
        "pipelines/test_build_workers.py::test_worker_that_dies_once_changes_nothing",
        "pipelines/test_build_workers.py::test_worker_that_always_dies_is_named_and_the_rest_is_kept",
        "pipelines/test_build_workers.py::test_late_attempts_count_for_nothing",
        "pipelines/test_build_workers.py::test_every_turn_is_there_once",
    ),
    "C37": (
        "pipelines/test_build_damage.py::test_another_model_is_refused_before_any_work",
        "test_cli.py::test_case_c37_another_encoder_is_refused_by_name",
    ),
    "C39": ("extract/test_parse.py::test_indexes_that_a_model_invented",),
    "C41": (
        "extract/test_extract_cases.py::test_greetings_alone_give_empty_tables",
        "cases/test_case_graph.py::test_case_c41_greetings_make_whole_tables_and_plain_statistics",
        "cases/test_case_graph.py::test_case_c41_nothing_is_made_of_a_greeting_by_somebody_named",
    ),
    "C42": (
        "test_causal.py::test_case_of_edges_that_point_back_in_time",
        "test_causal.py::test_no_cycle_whatever_is_claimed",
        "cases/test_case_graph.py::test_case_c42_causes_survive_builds_and_those_of_a_text_that_is_gone_go",
    ),
    "C43": (
        "extract/test_extract_cases.py::test_text_of_one_memory_never_reaches_another",
        "extract/test_prompts.py::test_text_stays_in_its_line_and_comes_back_whole",
        "cases/test_case_graph.py::test_case_c43_orders_in_a_log_are_kept_as_what_somebody_said",
        "cases/test_case_graph.py::test_case_c43_a_prompt_holds_the_order_on_its_speakers_line",
        "cases/test_case_graph.py::test_case_c43_memories_do_not_hear_of_each_other",
        "cases/test_case_graph.py::test_case_c43_the_dictated_number_is_no_answer",
    ),
    "C45": (
        "evaluate/test_metrics.py::test_the_shared_case_of_scores",
        "evaluate/test_bench.py::test_an_audit_is_scored_beside_the_gold",
        "evaluate/test_bench.py::test_the_constant_refusal_stands_beside_the_answers",
        "evaluate/test_bench.py::test_what_cannot_be_computed_is_null",
    ),
}


def test_every_case_has_a_test() -> None:
    assert sorted(COVERED) == sorted(all_cases())
    assert all(COVERED.values())


@pytest.mark.parametrize("case", COVERED)
def test_the_tests_named_are_there(case: str) -> None:
    for name in COVERED[case]:
        file, _, function = name.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, name
